"""Which of the tables that audits read wait for the audited model themselves."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.project.dag import audit_order, strong_components
from vde_dagster.project.loading.loader import load_project, load_project_isolated
from vde_dagster_tests.projects import ProjectFolder

ANTI = "SELECT * FROM @this_model AS t LEFT ANTI JOIN @other AS o ON t.id = o.id"


def name(text: str) -> ModelName:
    return ModelName("db", text)


def test_nodes_are_in_one_circle_when_each_reaches_the_other() -> None:
    for seed in range(100):
        chance = random.Random(seed)
        nodes = range(chance.randint(1, 7))
        graph = {i: [j for j in nodes if j != i and chance.random() < 0.25] for i in nodes}
        reached = {i: {i} for i in nodes}
        for _ in nodes:
            for i, j in itertools.product(nodes, nodes):
                reached[i] |= reached[j] if j in graph[i] else set()
        found = strong_components(graph)
        for i, j in itertools.product(nodes, nodes):
            assert (found[i] == found[j]) == (j in reached[i] and i in reached[j]), (seed, i, j)


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    folder = ProjectFolder(tmp_path)
    folder.write("audits/known.sql", f"AUDIT (name known); {ANTI}")
    return folder


def test_what_waits_for_the_audited_model_is_told_from_what_does_not(
    project: ProjectFolder,
) -> None:
    def audited(other: str) -> str:
        return f"kind FULL, audits (known(other := db.{other}))"

    for model, header, query in (
        ("first", audited("last"), "SELECT 1 AS id"),
        ("last", audited("first"), "SELECT 2 AS id"),
        ("base", audited("child"), "SELECT 3 AS id"),
        ("child", audited("last"), "SELECT id FROM db.base"),
        ("own", audited("own"), "SELECT 4 AS id"),
        ("reader", audited("base"), "SELECT id FROM db.base"),
        ("outside", "kind FULL, audits (known(other := lake.ids))", "SELECT 5 AS id"),
    ):
        project.write(f"models/{model}.sql", f"MODEL (name db.{model}, {header}); {query}")

    models = load_project(project.root).models

    order = audit_order(models)
    assert order.late == {
        name("first"): {name("last")},
        name("last"): {name("first")},
        name("base"): {name("child")},
    }
    assert {model: before for model, before in order.before.items() if before} == {
        name("child"): (name("last"),),
        name("outside"): (ModelName("lake", "ids"),),
    }
    assert models[ModelName("lake", "ids")].kind.is_external
    assert all(not models[name(one)].depends_on for one in ("first", "last", "own", "outside"))


def test_a_table_that_only_an_audit_misses_is_named_with_the_place_of_the_call(
    project: ProjectFolder,
) -> None:
    project.write(
        "models/a.sql",
        "MODEL (name db.a, kind FULL,\n  audits (known(other := db.orders)));\nSELECT 1 AS id",
    )
    project.write("models/b.sql", "MODEL (name db.order, kind FULL); SELECT 1 AS id")

    (problem,) = load_project_isolated(project.root, strict=False).problems

    assert "db.a reads db.orders" in problem.message
    assert "db.order" in (problem.hint or "")
