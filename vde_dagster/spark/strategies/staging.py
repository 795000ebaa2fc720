"""Putting a write together on a branch that nobody sees, and in its place in one atomic step."""

from __future__ import annotations

from collections.abc import Callable

from vde_dagster.errors import ConflictError
from vde_dagster.lakehouse.branch_names import scratch_branch
from vde_dagster.spark.strategies.base import Write

ATTEMPTS = 10


def write_staged(
    write: Write, put_together: Callable[[str], None], doing: str, *, attempts: int = ATTEMPTS
) -> None:
    """Write to a scratch branch, and fast-forward the task's branch to it.

    When somebody else committed to the task's branch meanwhile, it is done again from there. What
    a killed process leaves is the scratch branch, which the janitor removes.

    Args:
        write: The write.
        put_together: Commits to the scratch branch, which begins as the task's branch is.
        doing: What is being done to the interval, for the message: `merged`.
        attempts: How often it is tried.

    Raises:
        ConflictError: Others were faster each time.
    """
    task, table = write.task, write.table
    with write.lock:
        for _ in range(attempts):
            staging = scratch_branch(task.plan_id)
            table.branch_at(staging, task.branch)
            try:
                put_together(staging)
                if table.fast_forward(task.branch, staging):
                    return
            finally:
                table.drop_branch(staging)
    times = f" {attempts} times" if attempts > 1 else ""
    raise ConflictError(
        f"{task.table.ref} was changed by others{times} while {task.snapshot.name} "
        f"{task.interval.text} was being {doing}",
        hint="apply the plan again when the other writers are done",
    )
