"""Somebody publishes while another reads the environment: one version is planned, and told past."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import ConflictError
from vde_dagster.execution.plans import build_plans
from vde_dagster.planning.environments.environment import Environment
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder

pytestmark = pytest.mark.long


def test_a_run_is_of_the_version_that_was_read_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ProjectFolder(tmp_path, SHOP)
    with open_fake(folder.root) as workspace, open_fake(folder.root) as other:
        workspace.apply(workspace.plan("prod", now=datetime.now(timezone.utc) - timedelta(days=2)))
        read = build_plans.named_environment
        published = []

        def read_and_published(*what: Any) -> Environment:
            found = read(*what)
            if not published:
                published.append(found.version)
                folder.edit("models/marts/customers.sql", "sum(amount)", "max(amount)")
                assert other.apply(other.plan("prod")).published
            return found

        monkeypatch.setattr(build_plans, "named_environment", read_and_published)
        plan = workspace.plans.due("prod", full=True)
        assert published == [1]
        assert plan.base_version == 1
        with pytest.raises(ConflictError):
            workspace.apply(plan)
        assert other.store.environments.get("prod").version == 2
