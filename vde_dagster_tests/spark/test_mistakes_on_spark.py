"""What is called a mistake in a query is one for Spark; what is right, and warnings, are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base.names import ModelName, quote
from vde_dagster.errors import VdeError
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.checks.check_model import check_spark_grammar
from vde_dagster.planning.checks.diagnostics import CheckedModel
from vde_dagster.planning.rendering.render import replace_tables
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.macros.variables import substitute_time_variables, time_variable_values
from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.errors import Finding
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.execution.test_mistakes import CASES, RIGHT, base, sections, write
from vde_dagster_tests.spark.outcomes import FAILURES
from vde_dagster_tests.spark.registry import EVERYTHING, analysed, settings
from vde_dagster_tests.spark.spark_examples import documented_examples

pytestmark = [pytest.mark.spark, pytest.mark.turns(32, "what Spark does")]

NAMES = ("unnamed", "repeated")
"""What Spark refuses when it writes, not when it reads."""
TIMES = time_variable_values(*[datetime(2024, 1, day, tzinfo=timezone.utc) for day in (1, 2, 3)])


def test_spark_refuses_the_queries_that_are_called_wrong_and_no_others(
    spark_engine: SparkEngine, tmp_path: Path
) -> None:
    session = spark_engine.session
    wrong: list[str] = []
    rules: set[str] = set()
    for path in CASES:
        case = sections(path)
        del case["finds"]
        right = {n.removeprefix(RIGHT): t for n, t in case.items() if n.startswith(RIGHT)}
        meant = {n: t for n, t in case.items() if not n.startswith(RIGHT)}
        for which, files in (("wrong", meant), ("right", right)):
            root = tmp_path / path.stem / which
            write(root, {**base(), **files})
            for name, text, findings in _queries(root):
                refused = _refused(session, text)
                rules.update(finding.rule for finding in findings)
                if bool(findings) != (refused is not None):
                    wrong.append(f"{path.stem}, {which}, {name}: {findings}, Spark: {refused}")
    declared = {
        "functions_of_other_dialects, right, marts.m",
        "unknown_function_declared, right, marts.m",
    }
    assert [text for text in wrong if text.split(":")[0] not in declared] == []
    assert len(rules) >= 12


def _queries(root: Path) -> list[tuple[ModelName, str, list[Finding]]]:
    """A project's queries over empty tables, with what is certainly wrong in each."""
    try:
        project = load_project(root, strict=False, use_cache=False)
        snapshots = build_snapshots(project.models, lambda name: None)
    except VdeError:
        return []
    found = []
    for name, snapshot in snapshots.items():
        parents = [snapshots.get(parent) for parent in snapshot.model.depends_on]
        complete = all(parent is not None and parent.columns for parent in parents)
        if snapshot.model.query is None or not complete:
            continue
        schema = {
            str(parent): {c.name: c.type or "UNKNOWN" for c in snapshots[parent].columns}
            for parent in snapshot.parents
        }
        analysis = analyze(snapshot.model.query, schema, functions=project.settings.functions)
        certain = [f for f in analysis.findings if f.certain and f.rule not in NAMES]
        known = CheckedModel(replace(snapshot.model, audits=()), snapshot.columns)
        certain += [Finding("grammar", one.message, "") for one in check_spark_grammar(known, {})]
        found.append((name, _over_nothing(snapshot, snapshots), certain))
    return found


def _over_nothing(snapshot: Snapshot, snapshots: Mapping[ModelName, Snapshot]) -> str:
    def relation(name: ModelName) -> str | None:
        parent = snapshots.get(name)
        if parent is None:
            return None
        nothing = [f"CAST(NULL AS {c.type or 'INT'}) AS {quote(c.name)}" for c in parent.columns]
        return f"SELECT {', '.join(nothing)}"

    assert snapshot.model.query is not None
    return replace_tables(substitute_time_variables(snapshot.model.query, TIMES), relation)


def _refused(session: Any, text: str) -> str | None:
    try:
        session.sql(text)
    except FAILURES as error:
        return str(error).splitlines()[0][:100]
    return None


def test_no_documented_example_is_called_wrong(spark_engine: SparkEngine) -> None:
    session = spark_engine.session
    wrong: list[str] = []
    looked_at = 0
    with settings(session, EVERYTHING):
        for example in documented_examples(session):
            try:
                found = [f for f in analyze(example.text, {}).findings if f.certain]
            except VdeError:
                continue
            looked_at += 1
            certain = [finding for finding in found if finding.rule not in NAMES]
            if not certain:
                continue
            try:
                analysed(session, example.text)
            except FAILURES:
                continue
            wrong += [f"{example.text}: {finding.message}" for finding in certain]
    assert wrong == []
    assert looked_at > 500
