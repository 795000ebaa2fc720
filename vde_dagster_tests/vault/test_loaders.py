"""`loaders BY_SOURCE`: each source of a hub is a model of its own, the hub a view over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vde_dagster.base.failures import Problem
from vde_dagster.errors import ConflictError, ProjectError, UsageError
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.vault.tables import Table, run, values_of
from vde_dagster_tests.vault.test_first_seen import loaded

HEADER = """
    MODEL (name vault.hub, start '2024-01-01', kind HUB (key hk, loaders BY_SOURCE),
      partitioned_by (ldts),
      audits (number_of_rows(threshold := 1)));
"""
FILES = {
    "external_models.yaml": """
        - {name: crm.rows, columns: {hk: string, id: int, ldts: date}}
        - {name: erp.rows, columns: {hk: string, number: int, at: date}}
        - {name: web.rows, columns: {hk: string, id: int, ldts: date, rsrc: string}}
    """,
    "models/hub.sql": HEADER
    + """
    WITH c AS (SELECT * FROM crm.rows), e AS (SELECT hk, number, at FROM erp.rows)
    SELECT hk, id, ldts, 'CRM' AS rsrc FROM c WHERE ldts BETWEEN @start_date AND @end_date
    UNION ALL SELECT hk, number, at, 'erp' FROM e
    UNION ALL SELECT * FROM web.rows
    """,
    "models/reader.sql": "MODEL (name marts.keys, kind FULL); SELECT hk FROM vault.hub",
}


def _snapshots(folder: ProjectFolder) -> dict[str, Snapshot]:
    warnings: list[Problem] = []
    made = build_snapshots(load_project(folder.root).models, lambda name: None, warnings=warnings)
    # What the header says of the tables does something, though the hub is a view.
    assert not [one for one in warnings if "does nothing" in one.message]
    return {str(one.name): one for one in made.values()}


UNTYPED = {
    "": ("hk, id, ldts of vault.hub__crm", "the columns of crm.rows, erp.rows with their types"),
    "- {name: crm.rows}": ("hk, id, ldts of vault.hub__crm", "the columns of crm.rows"),
    "- {name: crm.rows, columns: {hk: unknown, id: int, ldts: date}}": (
        "hk of vault.hub__crm",
        "CAST(hk AS STRING) AS hk",
    ),
}


@pytest.mark.parametrize("declared", UNTYPED)
def test_a_stored_hub_of_unknown_types_says_what_to_declare(tmp_path: Path, declared: str) -> None:
    """The query over the sources' tables is not the author's, so the hint is about the sources."""
    header = HEADER.replace("BY_SOURCE)", "BY_SOURCE, stored true)")
    query = """
    SELECT hk, id, ldts, 'CRM' AS rsrc FROM crm.rows WHERE ldts BETWEEN @start_date AND @end_date
    UNION ALL SELECT hk, number, at, 'erp' FROM erp.rows
    """
    files = {"models/hub.sql": header + query, "external_models.yaml": declared}
    message, hint = UNTYPED[declared]
    folder = ProjectFolder(tmp_path, files)
    with pytest.raises(ProjectError, match=f"the types of {message} are unknown") as raised:
        _snapshots(folder)
    assert raised.value.location is not None
    assert hint in (raised.value.hint or "")
    typed = "{hk: string, id: int, number: int, ldts: date, at: date}"
    folder.write(
        "external_models.yaml",
        f"- {{name: crm.rows, columns: {typed}}}\n- {{name: erp.rows, columns: {typed}}}",
    )
    assert _snapshots(folder)["vault.hub"].model.kind.name == "INCREMENTAL_BY_CHANGES"


def test_each_source_is_a_model_and_the_hub_is_a_view_that_is_understood(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    found = _snapshots(folder)
    read = {"crm": "crm.rows", "erp": "erp.rows", "rows": "web.rows"}
    hub, keys = found["vault.hub"], found["marts.keys"]
    for source, table in read.items():
        one = found[f"vault.hub__{source}"]
        assert one.model.kind.name == "FIRST_SEEN"
        assert [column.name for column in one.columns] == ["hk", "id", "ldts", "rsrc"]
        assert [str(name) for name in one.model.depends_on] == [table]
        assert (one.version.opaque, one.model.audits) == (None, ())
    assert hub.model.kind.name == "VIEW"
    assert [str(name) for name in hub.model.depends_on] == [f"vault.hub__{one}" for one in read]
    assert [audit.name for audit in hub.model.audits] == ["number_of_rows"]
    assert frozenset({"hk"}) in hub.version.unique_keys
    assert frozenset({"hk"}) in keys.version.unique_keys

    # It is what somebody would write who writes each source as a model.
    folder.write(
        "models/other.sql",
        "MODEL (name vault.other, start '2024-01-01', kind HUB (key hk));\n"
        "SELECT hk, number AS id, at AS ldts, 'erp' AS rsrc FROM erp.rows",
    )
    again = _snapshots(folder)
    assert again["vault.other"].fill_version == found["vault.hub__erp"].fill_version


def test_a_hub_may_be_a_table_that_follows_those_of_its_sources(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    view = _snapshots(folder)
    folder.edit("models/hub.sql", "loaders BY_SOURCE", "loaders BY_SOURCE, stored true")
    found = _snapshots(folder)
    hub = found["vault.hub"]
    assert hub.model.kind.name == "INCREMENTAL_BY_CHANGES"
    assert hub.model.kind.named_columns == ("hk",)
    assert hub.model.partitioned_by == ("ldts",)
    assert {name for name in found if found[name].meaning != view[name].meaning} <= {
        "vault.hub",
        "marts.keys",
    }


def test_a_star_without_some_columns_is_no_difference_of_sources(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    folder.edit("models/hub.sql", "SELECT * FROM web.rows", "SELECT * EXCEPT (id), 1 FROM web.rows")
    assert "vault.hub__rows" in _snapshots(folder)


def test_a_source_more_makes_no_other_source_anew(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    before = _snapshots(folder)
    folder.edit(
        "models/hub.sql",
        "UNION ALL SELECT * FROM web.rows",
        "UNION ALL SELECT * FROM web.rows UNION ALL SELECT 'k', 1, DATE '2024-01-01', 'new'",
    )
    after = _snapshots(folder)
    assert set(after) - set(before) == {"vault.hub__new"}
    changed = {name for name in before if before[name].meaning != after[name].meaning}
    assert changed == {"vault.hub", "marts.keys"}


def test_a_source_may_have_a_schedule_of_its_own_and_several_queries(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    folder.edit("models/hub.sql", "loaders BY_SOURCE", "loaders (erp = '@hourly', CRM = '@weekly')")
    folder.edit("models/hub.sql", "SELECT * FROM web.rows", "SELECT hk, id, ldts, 'erp' FROM c")
    found = _snapshots(folder)
    crons = {name: one.model.cron for name, one in found.items() if name.startswith("vault.hub_")}
    assert crons == {"vault.hub__crm": "0 0 * * 0", "vault.hub__erp": "0 * * * *"}
    read = [str(name) for name in found["vault.hub__erp"].model.depends_on]
    assert read == ["crm.rows", "erp.rows"]


@pytest.mark.parametrize("kind", ["{'name': 'HUB', 'key': ['hk'], 'loaders': 'BY_SOURCE'}", "KIND"])
def test_sql_that_python_writes_has_sources_too_and_no_property_of_it_is_idle(
    tmp_path: Path, kind: str
) -> None:
    code = f"""
        from vde_dagster import model

        KIND = {{"name": "HUB", "key": ["hk"], "loaders": "BY_SOURCE"}}

        @model("vault.hub", is_sql=True, start="2024-01-01", partitioned_by=["ldts"], kind={kind})
        def entrypoint(evaluator):
            select = "SELECT 'a' AS hk, DATE '2024-01-01' AS ldts, '%s' AS rsrc"
            return " UNION ALL ".join(select % one for one in ("crm", "erp"))
    """
    found = _snapshots(ProjectFolder(tmp_path, {"models/hub.py": code}))
    assert set(found) == {"vault.hub__crm", "vault.hub__erp", "vault.hub"}
    assert found["vault.hub__crm"].model.partitioned_by == ("ldts",)


def test_a_source_and_an_environment_of_one_name_never_show_one_view(tmp_path: Path) -> None:
    together = "kind HUB (key hk), start '2024-01-01', end '2024-01-01'"
    select = "SELECT 'a' AS hk, DATE '2024-01-01' AS ldts, '{}' AS rsrc"
    selects = " UNION ALL ".join(map(select.format, ("crm", "erp")))
    folder = ProjectFolder(
        tmp_path,
        {
            "pyproject.toml": '[tool.vde]\nenvironment_suffix_target = "table"',
            "models/hub.sql": f"MODEL (name vault.hub, {together});\n{selects}",
        },
    )
    with open_fake(folder.root) as workspace:
        for environment in ("prod", "crm"):
            workspace.apply(workspace.plan(environment))
    # The view of the hub in 'crm' is vault.hub__crm, and so would be that of its source.
    folder.edit("models/hub.sql", "(key hk)", "(key hk, loaders BY_SOURCE)")
    with open_fake(folder.root) as workspace:
        with pytest.raises(
            ConflictError, match=r"the view vault\.hub__crm belongs to another model"
        ):
            workspace.apply(workspace.plan("prod"))
        with pytest.raises(
            UsageError, match=r"would have the same name as vault\.hub__crm"
        ) as raised:
            workspace.plan("crm")
        assert raised.value.hint == "choose another name for the environment"
        workspace.apply(workspace.plan("dev"))
        views = workspace.lakehouse.published_views("dev")
        assert {str(ref) for ref in views} == {
            "vault.hub__dev", "vault.hub__crm__dev", "vault.hub__erp__dev"
        }  # fmt: skip


SOURCES = ("crm", "erp", "web")
COLUMNS = {"hk": "string", "ldts": "date", "rsrc": "string", "v": "int"}
ROWS = st.tuples(
    st.sampled_from("abc"),
    st.sampled_from(("2024-01-01", "2024-01-02", "2024-01-03")),
    st.sampled_from(SOURCES),
    st.integers(0, 2),
)


@pytest.fixture(scope="module")
def winners(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The query of the view over three sources."""
    selects = [f"SELECT hk, ldts, '{one}' AS rsrc, v FROM s.{one}" for one in SOURCES]
    folder = ProjectFolder(
        tmp_path_factory.mktemp("hub"),
        {"models/hub.sql": HEADER + " UNION ALL ".join(selects)},
    )
    query = _snapshots(folder)["vault.hub"].model.query
    assert query is not None
    return query


@pytest.mark.proof
@settings(max_examples=12, deadline=None)
@given(rows=st.lists(ROWS, max_size=12))
def test_the_view_has_the_rows_of_one_table_of_all_sources(rows: list[Any], winners: str) -> None:
    table = Table("t", "FIRST_SEEN (key hk, time ldts, source rsrc)", COLUMNS, ())
    with duckdb.connect(config={"threads": 1}) as database:
        database.execute("CREATE SCHEMA vault")
        for source in SOURCES:
            own = [row for row in rows if row[2] == source]
            held = [list(map(str, row)) for row in loaded(table, [own])]
            run(database, f"CREATE TABLE vault.hub__{source} AS {values_of(COLUMNS, held)}")
        found = sorted(run(database, winners), key=repr)
    assert found == loaded(table, [rows])


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("BY_SOURCE", "BY_KEY", "'loaders' cannot be 'BY_KEY'", 1),
        ("BY_SOURCE", "(crm = 'often')", "'often' is not a cron expression", 1),
        ("BY_SOURCE", "(sap = '@daily')", "vault.hub does not have the source 'sap'", 1),
        ("web.rows", "web.rows LIMIT 3", "'LIMIT' in vault.hub applies to all its sources", 8),
        ("web.rows", "web.rows |> WHERE true", r"'\|>' in vault.hub applies to all its", 8),
        (
            "UNION ALL SELECT *",
            "EXCEPT SELECT *",
            "'EXCEPT' in vault.hub applies to all its sources",
            8,
        ),
        ("'erp' FROM e", "upper('erp')", "a SELECT of vault.hub has no known source", 7),
        ("number, at, 'erp'", "at, 'erp'", "has 3 columns, but the first 4", 7),
        ("hk, id, ldts, 'CRM' AS rsrc FROM c", "* FROM a.b", "the columns of vault.hub are", 1),
        ("web.rows", "vault.hub", "vault.hub reads itself", 1),
    ],
)
def test_a_query_that_cannot_be_divided_is_refused_with_file_line_and_hint(
    tmp_path: Path, old: str, new: str, message: str, line: int
) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    folder.edit("models/hub.sql", old, new)
    with pytest.raises(ProjectError, match=message) as raised:
        _snapshots(folder)
    assert raised.value.location is not None
    assert (raised.value.location.path.name, raised.value.location.line) == ("hub.sql", line)
    assert raised.value.hint
