"""A source that the product does not have, beside the product's own files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.tables.table import external_table
from vde_dagster.project.files import find_files
from vde_dagster.project.loading import load as registry
from vde_dagster.project.loading.loader import Project, load_project, project_hash
from vde_dagster.project.model import LoadedFile
from vde_dagster.project.sources.own_files import OwnFiles
from vde_dagster.project.sources.source import Folder, SourceFactory
from vde_dagster.sql.trees import ParsedQueries
from vde_dagster_tests.project.conftest import WriteProject
from vde_dagster_tests.project.json_source import SHARED, JsonModels, json_models

ORDERS = """{"models": {
  "orders": {"kind": "FULL", "query": "SELECT id, amount FROM raw.orders"},
  "big_orders": {"kind": "VIEW", "query": "SELECT id FROM shop.orders WHERE amount > 100"}
}}
"""
LEADS = """{"models": {
  "leads": {"kind": "FULL", "query": "SELECT l.id FROM crm.sales.leads AS l"}
}}
"""
FILES = {
    "pyproject.toml": "[tool.vde]\nname = 'mixed'\nstart = '2024-01-01'\n",
    "models/raw_orders.sql": "MODEL (name raw.orders, kind FULL);\nSELECT 1 AS id, 5 AS amount",
    "models/report.sql": "MODEL (name marts.report, kind FULL);\n"
    "SELECT COUNT(*) AS orders FROM shop.big_orders",
    "warehouse/orders.json": ORDERS,
    "warehouse/leads.json": LEADS,
    SHARED: '"shop"\n',
}


class CountingOwnFiles(OwnFiles):
    """The product's own files; `was_read` lists those that had to be read."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(folder, find_files(folder.settings))
        self.was_read: list[str] = []

    def read(self, path: str, text: str) -> LoadedFile:
        self.was_read.append(path)
        return super().read(path, text)


class Loads:
    """Loads of one project with both sources.

    Args:
        root: The project's folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, *, strict: bool = True) -> tuple[Project, list[str]]:
        """Load the project; also return what was not in the cache, sorted."""
        made: list[CountingOwnFiles | JsonModels] = []

        def counted(factory: Callable[[Folder], CountingOwnFiles | JsonModels | None]):
            def make(folder: Folder) -> CountingOwnFiles | JsonModels | None:
                source = factory(folder)
                made.extend([source] if source is not None else [])
                return source

            return make

        sources: tuple[SourceFactory, ...] = (counted(CountingOwnFiles), counted(json_models))
        project = load_project(self.root, strict=strict, sources=sources)
        return project, sorted(path for source in made for path in source.was_read)


@pytest.fixture
def loads(write_project: WriteProject) -> Loads:
    return Loads(write_project(FILES))


def test_models_of_several_sources_make_one_graph(loads: Loads) -> None:
    project, _ = loads()

    assert [str(name) for name in project.models] == [
        "crm_lake__sales.leads",
        "raw.orders",
        "shop.leads",
        "shop.orders",
        "shop.big_orders",
        "marts.report",
    ]
    big = project.models[ModelName("shop", "big_orders")]
    assert str(big.location) == "warehouse/orders.json:3:3"


def test_unchanged_files_of_any_source_are_not_read_again(loads: Loads) -> None:
    first, read = loads()
    assert read == sorted(set(FILES) - {"pyproject.toml"})

    second, read = loads()

    assert read == []
    assert second == first


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("warehouse/leads.json", LEADS.replace("l.id", "l.id, l.name"), ["warehouse/leads.json"]),
        (SHARED, '"store"', ["warehouse/leads.json", "warehouse/orders.json"]),
        (
            "models/report.sql",
            FILES["models/report.sql"].replace("COUNT", "SUM").replace("*", "id"),
            ["models/report.sql"],
        ),
    ],
)
def test_a_change_is_read_where_it_matters_and_nowhere_else(
    loads: Loads, monkeypatch: pytest.MonkeyPatch, path: str, text: str, expected: list[str]
) -> None:
    monkeypatch.setattr(registry, "SOURCES", (*registry.SOURCES, json_models))
    loads()
    before = project_hash(loads.root)
    (loads.root / path).write_text(text)

    project, read = loads(strict=False)

    assert [found for found in read if found != SHARED] == expected
    assert project_hash(loads.root) == project.files_hash != before


def test_every_source_s_mistakes_are_told_with_their_places(loads: Loads) -> None:
    (loads.root / "models/report.sql").write_text("MODEL (name marts.report, kind FUL);\nSELECT 1")
    (loads.root / "warehouse/leads.json").write_text('{"models": {\n  "leads": ]\n}}')
    (loads.root / "warehouse/orders.json").write_text(
        ORDERS.replace("SELECT id,", "SELEC id,").replace('"VIEW"', '"VIEWS"')
    )

    project, _ = loads(strict=False)

    told = [str(problem) for problem in project.problems]
    assert [text.split(": ")[0] for text in told] == [
        "models/report.sql:1:32",
        "warehouse/leads.json:2:12",
        "warehouse/orders.json:2:48",
        "warehouse/orders.json:3:27",
    ]
    assert {str(name) for name in project.models} == {"raw.orders"}


def test_what_follows_from_a_broken_shared_file_is_not_told(loads: Loads) -> None:
    (loads.root / SHARED).write_text("shop")
    (loads.root / "warehouse/leads.json").write_text(LEADS.replace('"leads"', '"ghosts"'))

    project, _ = loads(strict=False)

    assert [problem.message for problem in project.problems] == ["no schema"]

    (loads.root / SHARED).write_text('"shop"')
    project, _ = loads(strict=False)

    assert [problem.message for problem in project.problems] == ["shop.ghosts is no model"]


def test_one_name_in_two_sources_is_one_mistake_with_both_places(loads: Loads) -> None:
    (loads.root / "models/orders.sql").write_text("MODEL (name shop.orders);\nSELECT 1 AS id")

    with pytest.raises(ProjectError) as caught:
        loads()

    (mistake,) = caught.value.mistakes
    assert str(mistake.location) == "warehouse/orders.json:2:3"
    assert mistake.message == (
        "model shop.orders is defined twice: in models/orders.sql:1:1 and here"
    )


def test_a_file_that_two_sources_take_belongs_to_the_first(loads: Loads) -> None:
    class Greedy(JsonModels):
        name = "greedy"

    project = load_project(loads.root, sources=(*registry.SOURCES, json_models, Greedy))

    assert project.problems == ()
    assert ModelName("shop", "orders") in project.models


def test_a_folder_without_such_files_has_no_such_source(write_project: WriteProject) -> None:
    root = write_project({"models/m.sql": "MODEL (name a.m); SELECT 1 AS n"})

    project = load_project(root, sources=(*registry.SOURCES, json_models))

    assert project.names.catalogs == {}
    assert [str(name) for name in project.models] == ["a.m"]


def test_all_sources_feed_plans(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "SOURCES", (*registry.SOURCES, json_models))

    with Workspace.open(loads.root) as workspace:
        plan = workspace.plan("dev")
        stored = workspace.store.plans.load(plan.id)
        rendered = workspace.models.render("shop.leads", environment="dev")

    assert stored == plan
    assert [str(model.name) for model in plan.models if model.change.value == "added"] == [
        "crm_lake__sales.leads",
        "raw.orders",
        "shop.leads",
        "shop.orders",
        "shop.big_orders",
        "marts.report",
    ]
    assert [str(build.name) for build in plan.builds] == [
        "raw.orders",
        "shop.leads",
        "shop.orders",
        "marts.report",
    ]
    assert rendered.endswith("FROM `crm_lake`.`sales`.`leads` AS l")


def test_planning_takes_the_trees_of_any_source(
    loads: Loads, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = ParsedQueries()
    project = load_project(loads.root, sources=(*registry.SOURCES, json_models), parsed=parsed)

    def parse(query: str, dialect: str) -> None:
        raise AssertionError(f"parsed again: {query}")

    monkeypatch.setattr("vde_dagster.semantics.analysis.parse", parse)

    assert len(build_snapshots(project.models, lambda name: None, parsed=parsed)) == 6


def test_a_source_brings_its_own_names_of_tables_in_other_catalogs(loads: Loads) -> None:
    project, _ = loads()

    leads = project.models[ModelName("shop", "leads")]
    external = project.models[ModelName("crm_lake__sales", "leads")]
    assert leads.query == "SELECT l.id FROM crm_lake__sales.leads AS l"
    assert leads.depends_on == (external.name,)
    assert external_table(external).quoted("lakehouse") == "`crm_lake`.`sales`.`leads`"
    assert external_table(project.models[ModelName("raw", "orders")]).catalog is None
    snapshots = build_snapshots(project.models, lambda name: pytest.fail(f"looked for {name}"))
    assert snapshots[external.name].columns == ()


def test_other_sources_do_not_read_by_these_names(loads: Loads) -> None:
    (loads.root / "models/more.sql").write_text(
        "MODEL (name marts.more);\nSELECT id FROM crm.sales.leads"
    )

    with pytest.raises(ProjectError, match=r"'crm\.sales\.leads' is in another catalog"):
        loads()
