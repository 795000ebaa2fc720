"""The planner on cases written as data: a project, an edit, and what the plan must say."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import VdeError
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.reasons import Reason
from vde_dagster.reports.reasons import describe_break, describe_change_in_place, describe_reason
from vde_dagster_tests.planning.simulate import NOW, Warehouse
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.yaml_files import read_yaml

FIXTURES = Path(__file__).parent.parent / "fixtures" / "planning"


_OPTIONS = (
    "skip_backfill",
    "ignore_cron",
    "min_intervals",
    "empty_backfill",
    "backfill",
    "no_gaps",
    "forward_only",
    "allow_destructive",
    "allow_additive",
)
"""What a step may say of its plan beside the range, as fields of `PlanOptions`."""


def load_cases() -> list[Any]:
    cases = []
    for path in sorted(FIXTURES.glob("*.yaml")):
        document = read_yaml(path)
        for case in document["cases"]:
            case["models"] = {**document.get("models", {}), **case.get("models", {})}
            case["external"] = document.get("external", {})
            if "now" in document:
                case.setdefault("now", document["now"])
            cases.append(pytest.param(case, id=f"{path.stem}: {case['case']}"))
    return cases


def said(plan: Plan) -> dict[str, str]:
    """Return what a plan says of each model that is not unchanged, in the fixtures' words."""
    out = {}
    for model in plan.models:
        words = [model.change.value]
        if model.category and model.category.value != model.change.value:
            words.append(model.category.value)
        if model.builds:
            words.append("builds")
        if words != ["unchanged"]:
            out[str(model.name)] = " ".join(words)
    return out


def take(step: dict[str, Any], world: World) -> None:
    """Edit, plan, compare, apply."""
    world.edit(step.get("edit") or {})
    if "forget" in step:
        del world.warehouse.environments[step["forget"]]
    for name, ranges in (step.get("filled") or {}).items():
        world.set_filled(name, ranges)
    for name, types in (step.get("written") or {}).items():
        world.set_types(name, types)
    if "error" in step:
        with pytest.raises(VdeError, match=step["error"]):
            world.plan(step)
        return
    plan = world.plan(step)
    if "plan" in step:
        assert said(plan) == (step["plan"] or {})
    assert all(isinstance(one, Reason) for model in plan.models for one in model.reasons)
    reasons = {
        str(model.name): " | ".join(map(describe_reason, model.reasons)) for model in plan.models
    }
    for name, words in (step.get("reasons") or {}).items():
        assert words in reasons[name]
    if "intervals" in step:
        filled = {str(m.name): written(m.intervals) for m in plan.models if m.builds}
        assert filled == (step["intervals"] or {})
    if "views" in step:
        views = {what: names for what, names in plan.views.to_json().items() if names}
        assert views == (step["views"] or {})
    if "breaks" in step:
        assert [describe_break(broken) for broken in plan.breaks] == (step["breaks"] or [])
    if "outdates" in step:
        assert outdates(plan) == (step["outdates"] or {})
    if "in_place" in step:
        found = {
            str(m.name): list(describe_change_in_place(m.in_place))
            for m in plan.models
            if m.in_place
        }
        expected = step["in_place"] or {}
        assert found.keys() == expected.keys()
        for name, words in expected.items():
            assert all(part in " | ".join(found[name]) for part in words), found[name]
    if "warnings" in step:
        words = step["warnings"] or []
        assert len(plan.warnings) == len(words)
        assert all(any(word in said for said in plan.warnings) for word in words)
    if "audits" in step:
        assert [str(model.name) for model in plan.models if model.audits] == step["audits"]
    for one, other in (step.get("same_table") or {}).items():
        assert table_of(plan, one) == world.known_tables[other]
    for model in plan.models:
        if model.table is not None:
            world.known_tables[f"{plan.environment} {model.name}"] = model.table.id
    if step.get("apply", True):
        world.warehouse.apply(plan)


def outdates(plan: Plan) -> dict[str, str]:
    """What a restatement makes outdated, by `environment model` (`kept model` if none shows it)."""
    return {
        f"{' '.join(found.environments) or 'kept'} {found.name}": written(found.intervals)
        for found in plan.outdates
    }


def table_of(plan: Plan, name: str) -> str | None:
    """The id of the table that serves a model."""
    (found,) = [model.table for model in plan.models if str(model.name) == name]
    return found.id if found else None


def written(intervals: IntervalSet) -> str:
    """`2024-01-01 2024-01-05, 2024-01-07 2024-01-08`, with hours where they matter."""
    return ", ".join(f"{_instant(r.start)} {_instant(r.end)}" for r in intervals)


def _instant(instant: datetime) -> str:
    midnight = (instant.hour, instant.minute) == (0, 0)
    return f"{instant:%Y-%m-%d}" if midnight else f"{instant:%Y-%m-%dT%H:%M}"


class World:
    """A project's folder and a warehouse.

    Args:
        case: The case: `models` by file, `external` tables.
        root: An empty folder.
    """

    def __init__(self, case: dict[str, Any], root: Path) -> None:
        files = {_path(name): text for name, text in case["models"].items() if text}
        self.folder = ProjectFolder(root, files)
        external = {
            name: [(column, type_) for column, type_ in columns.items()]
            for name, columns in case["external"].items()
        }
        self.warehouse = Warehouse(external)
        self.known_tables: dict[str, str] = {}

    def edit(self, edits: dict[str, Any]) -> None:
        """Apply edits: None removes a file, a text replaces it, a mapping edits within it."""
        for name, text in edits.items():
            if text is None:
                self.folder.remove(_path(name))
            elif isinstance(text, dict):
                for old, new in text.items():
                    self.folder.edit(_path(name), old, new)
            else:
                self.folder.write(_path(name), text)

    def set_filled(self, name: str, ranges: str) -> None:
        """Pretend that production's table of a model holds other ranges than it does."""
        entry = self.warehouse.environments["prod"].entries[ModelName.parse(name)]
        assert entry.table_id is not None
        table = self.warehouse.tables[entry.table_id]
        filled = IntervalSet.of(
            Interval(at(part.split()[0]), at(part.split()[1]))
            for part in ranges.split(",")
            if part.strip()
        )
        self.warehouse.tables[table.id] = replace(table, intervals=filled)

    def set_types(self, name: str, types: dict[str, str]) -> None:
        """Pretend that Spark made columns of these types of what production shows of a model."""
        entry = self.warehouse.environments["prod"].entries[ModelName.parse(name)]
        if entry.table_id is None:
            self.warehouse.view_types[entry.snapshot_id] = tuple(types.items())
            return
        table = self.warehouse.tables[entry.table_id]
        columns = tuple(column._replace(type=types[column.name]) for column in table.columns)
        self.warehouse.tables[table.id] = replace(table, columns=columns)

    def plan(self, step: dict[str, Any]) -> Plan:
        """Make the plan that a step asks for."""
        environment = step.get("env", "prod")
        now = at(step["now"]) if "now" in step else NOW
        ranges = {key: at(step[key]) for key in ("start", "end") if key in step}
        said = {key: step[key] for key in _OPTIONS if key in step}
        if "effective_from" in step:
            said["effective_from"] = at(step["effective_from"])
        if "restate" in step:
            given = step["restate"].split()
            return self.warehouse.plan_restatement(environment, now=now, restate=given, **ranges)
        if step.get("run"):
            return self.warehouse.plan_run(environment, now=now, **said)
        return self.warehouse.plan(
            self.folder.root,
            environment,
            now=now,
            start=at(step["start"]) if "start" in step else None,
            end=at(step["end"]) if "end" in step else None,
            **said,
        )


def at(text: object) -> datetime:
    """Read an instant in UTC; YAML may have read a date already."""
    return datetime.fromisoformat(str(text)).replace(tzinfo=timezone.utc)


def _path(name: str) -> str:
    return name if "/" in name else f"models/{name}.sql"


@pytest.mark.parametrize("case", load_cases())
def test_plan_says_what_the_case_expects(case: dict[str, Any], tmp_path: Path) -> None:
    world = World(case, tmp_path)
    at_first = {"now": case["now"]} if "now" in case else {}
    if case.get("published", True):
        take(at_first, world)
        assert world.plan(at_first).is_empty
    if "steps" in case:
        for step in case["steps"]:
            take({**at_first, **step}, world)
        return
    take(case if "breaks" in case else {"plan": None, **case}, world)
    if "error" not in case:
        assert world.plan(case).is_empty
