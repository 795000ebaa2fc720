"""Hints about a model of a dbt project name settings of dbt."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, SourceLocation, UsageError
from vde_dagster.planning.plan.forward_only import InPlaceFinding, InPlaceFindingCode
from vde_dagster.planning.plan.restatement import Refusal, RefusalCode, Restatement
from vde_dagster.project.kinds import Kind
from vde_dagster.project.model import Model
from vde_dagster.reports.forward_only import warnings_in_place
from vde_dagster.reports.restatement import restated_plan

NAME = ModelName("main", "orders")
NO_PLAN = cast(Any, None)


@pytest.mark.parametrize(
    ("tool", "kind", "hint"),
    [
        ("", "INCREMENTAL_BY_UNIQUE_KEY", "write disable_restatement false in its kind"),
        ("dbt", "INCREMENTAL_BY_UNIQUE_KEY", "remove full_refresh: false from its config in dbt"),
        ("dbt", "SCD_TYPE_2_BY_TIME", "no setting of dbt allows it for kind SCD_TYPE_2_BY_TIME"),
    ],
)
def test_a_disabled_restatement(tool: str, kind: str, hint: str) -> None:
    refused = Refusal(NAME, RefusalCode.DISABLED, kind, tool)
    with pytest.raises(UsageError) as raised:
        restated_plan(Restatement(NO_PLAN, (refused,), (), {NAME}))
    assert str(raised.value.hint).startswith(hint)


@pytest.mark.parametrize(
    ("tool", "code", "hint"),
    [
        ("", InPlaceFindingCode.UNNAMED_FIELDS, "set forward_only true in its kind, publish that"),
        ("dbt", InPlaceFindingCode.UNNAMED_FIELDS, "set full_refresh: false in dbt, publish that"),
        ("", InPlaceFindingCode.DESTRUCTIVE, "or set on_destructive_change allow in its kind"),
        ("dbt", InPlaceFindingCode.DESTRUCTIVE, "or set on_schema_change: sync_all_columns in dbt"),
    ],
)
def test_a_refused_change_in_place(tool: str, code: InPlaceFindingCode, hint: str) -> None:
    location = SourceLocation(Path("models/orders.sql"))
    model = Model(NAME, Kind.named("FULL"), location, tool=tool)
    with pytest.raises(ProjectError) as raised:
        warnings_in_place([InPlaceFinding(code, model, True, ("a",))])
    assert hint in str(raised.value.hint)
