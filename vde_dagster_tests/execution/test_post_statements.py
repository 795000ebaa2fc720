"""Statements after a query run with each fill, also with a fill whose statement failed before."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.errors import ExecutionError
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder

FILES = {
    "models/daily.sql": """
        MODEL (name db.daily, start '2024-01-01', end '2024-01-02',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 1));
        SELECT CAST('2024-01-01' AS DATE) AS day;
        INSERT INTO audit.loads VALUES (@start_ds)
    """,
}


class WithStatements(FakeSpark):
    """Commits the rows of a fill and then runs its statements, of which the n-th fails."""

    def __init__(self, failing: int) -> None:
        super().__init__()
        self.left = failing
        self.ran: list[str] = []

    def fill(self, task: FillTask) -> FillResult:
        result = super().fill(task)
        for statement in task.after:
            self.left -= 1
            if not self.left:
                raise ExecutionError("the statement failed")
            self.ran.append(statement.partition("VALUES ")[2])
        return result


@pytest.mark.parametrize("failing", [1, 2])
def test_a_statement_that_failed_runs_with_the_next_apply(tmp_path: Path, failing: int) -> None:
    folder = ProjectFolder(tmp_path / "project", FILES)
    engine = WithStatements(failing)
    with open_fake(folder.root, engine) as workspace:
        with pytest.raises(ExecutionError, match="the statement failed"):
            workspace.apply(workspace.plan("prod"))
        workspace.apply(workspace.plan("prod"))
    assert engine.ran == ["('2024-01-01')", "('2024-01-02')"]
