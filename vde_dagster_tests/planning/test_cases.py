"""The planner on cases written as data: a project, an edit, and what the plan must say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from vde_dagster.planning.plan import Plan
from vde_dagster_tests.planning.simulate import Warehouse
from vde_dagster_tests.projects import ProjectFolder

FIXTURES = Path(__file__).parent.parent / "fixtures" / "planning"


def load_cases() -> list[Any]:
    cases = []
    for path in sorted(FIXTURES.glob("*.yaml")):
        document = yaml.safe_load(path.read_text())
        for case in document["cases"]:
            case["models"] = {**document.get("models", {}), **case.get("models", {})}
            case["external"] = document.get("external", {})
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


@pytest.mark.parametrize("case", load_cases())
def test_plan_says_what_the_case_expects(case: dict[str, Any], tmp_path: Path) -> None:
    folder = ProjectFolder(
        tmp_path, {f"models/{name}.sql": text for name, text in case["models"].items() if text}
    )
    external = {
        name: [(column, type_) for column, type_ in columns.items()]
        for name, columns in case["external"].items()
    }
    warehouse = Warehouse(external)
    warehouse.apply(warehouse.plan(tmp_path))
    assert warehouse.plan(tmp_path).is_empty
    for name, text in case.get("edit", {}).items():
        if text is None:
            folder.remove(f"models/{name}.sql")
        elif isinstance(text, dict):
            for old, new in text.items():
                folder.edit(f"models/{name}.sql", old, new)
        else:
            folder.write(f"models/{name}.sql", text)
    plan = warehouse.plan(tmp_path)
    assert said(plan) == (case.get("plan") or {})
    reasons = {str(model.name): " | ".join(model.reasons) for model in plan.models}
    for name, words in (case.get("reasons") or {}).items():
        assert words in reasons[name]
    warehouse.apply(plan)
    assert warehouse.plan(tmp_path).is_empty
