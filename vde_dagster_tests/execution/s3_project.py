"""A project whose warehouse is in an object store, through all that a team does with one.

Run in a process of its own, whose JVM has what S3 needs: python -m … FOLDER. Prints JSON.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path

from vde_dagster.execution.workspace import Workspace
from vde_dagster.state.db.effects import SystemClock
from vde_dagster_tests.execution.change_copies import follow_everywhere

NEWEST = "models/newest.sql"
READ = "SELECT CAST(d AS STRING), one FROM sales.shown"


class Later(SystemClock):
    """A clock that is ahead.

    Args:
        days: By how many days.
    """

    def __init__(self, days: int) -> None:
        self.days = days

    def now(self) -> datetime:
        """Return the time."""
        return super().now() + timedelta(days=self.days)


def main(root: Path) -> dict[str, object]:
    """Build, edit, publish, look back, roll back, clean up; return what was seen."""
    seen: dict[str, object] = {}
    with Workspace.open(root) as workspace:
        workspace.apply(workspace.plan("prod"))
        seen["first"] = workspace.query("prod", READ).rows
    newest = root / NEWEST
    newest.write_text(newest.read_text().replace("max(day)", "min(day)"))
    with Workspace.open(root) as workspace:
        workspace.apply(workspace.plan("dev"))
        seen["dev"] = workspace.query("dev", READ).rows
        seen["prod meanwhile"] = workspace.query("prod", READ).rows
        workspace.apply(workspace.plan("prod"))
        seen["second"] = workspace.query("prod", READ).rows
        seen["version 1"] = workspace.query("prod@1", READ).rows
        workspace.environments.rollback("prod", 1)
        seen["rolled back"] = workspace.query("prod", READ).rows
        seen["without Spark"] = workspace.queries.read("prod", "sales.orders").to_pylist()
        seen["changes"] = follow_everywhere(workspace, "sales.newest", "sales.orders")
        seen["damage"] = workspace.maintenance.fsck()
        workspace.environments.drop("dev")
    for days in (60, 65):
        with Workspace.open(root, clock=Later(days)) as workspace:
            seen[f"cleaned after {days} days"] = asdict(workspace.maintenance.janitor())
            seen["at the end"] = workspace.queries.read("prod", "sales.newest").to_pylist()
            seen["damage at the end"] = workspace.maintenance.fsck()
    return seen


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1])), default=str))
