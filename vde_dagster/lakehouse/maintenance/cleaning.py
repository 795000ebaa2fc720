"""One cleaning: what was decided, and carrying it out or only telling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from vde_dagster.errors import DamagedFileError, VdeError
from vde_dagster.state.retention import Retention
from vde_dagster.state.store import StateStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from vde_dagster.lakehouse.lakehouse import Lakehouse


Action = Literal[
    "drop_environment",
    "give_up_table",
    "drop_table",
    "keep_table",
    "drop_branch",
    "close_plan",
    "forget_version",
    "delete_files",
    "delete_orphans",
    "drop_namespace",
    "expire_snapshots",
    "keep_snapshots",
    "forget_records",
    "repair_mirror",
]
Outcome = Literal["planned", "done", "kept", "failed"]


@dataclass(frozen=True, slots=True)
class Decision:
    """One thing that the janitor decided.

    Args:
        action: What is done, or with `keep_table` and `keep_snapshots` is not done.
        outcome: `planned` in a dry run; `kept` when nothing was to be done.
        bytes: How much that frees, or what is kept takes, when known.
        error: Why it failed; the next run tries again.
        version: (environment, version) of a version that is forgotten.
    """

    action: Action
    subject: str
    reason: str
    outcome: Outcome
    bytes: int | None = None
    error: str | None = None
    version: tuple[str, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "action": self.action,
            "subject": self.subject,
            "reason": self.reason,
            "outcome": self.outcome,
            "bytes": self.bytes,
            "error": self.error,
        }


class Cleaning:
    """One run of the janitor: collects its decisions.

    Args:
        retention: For how long things are kept.
        keep_snapshots: For how long superseded Iceberg snapshots are kept.
    """

    def __init__(
        self,
        store: StateStore,
        lakehouse: Lakehouse,
        retention: Retention,
        keep_snapshots: timedelta,
        dry_run: bool,
    ) -> None:
        self.store = store
        self.lakehouse = lakehouse
        self.retention = retention
        self.keep_snapshots = keep_snapshots
        self.dry_run = dry_run
        self.decisions: list[Decision] = []
        self._damaged: set[str] = set()

    def tell(self, decision: Decision) -> None:
        """Add a decision to the report."""
        self.decisions.append(decision)

    def leave(self, subject: str, error: VdeError | OSError) -> None:
        """Record a subject left alone as a file cannot be read; once for each file."""
        file = error.file if isinstance(error, DamagedFileError) else str(error)
        if file not in self._damaged:
            self._damaged.add(file)
            reason = "nothing of it is removed as long as it cannot be read"
            self.tell(Decision("keep_table", subject, reason, "failed", error=str(error)))

    def act(self, decision: Decision, work: Callable[[], bool]) -> None:
        """Carry out a decision, unless this is a dry run; a failure is reported as one.

        Args:
            decision: What was decided; its outcome is filled in here.
            work: Does it; returns False when there turned out to be nothing to do.
        """
        if self.dry_run:
            self.tell(replace(decision, outcome="planned"))
            return
        try:
            done = work()
        except DamagedFileError as error:
            self._damaged.add(error.file)
            self.tell(replace(decision, outcome="failed", error=str(error)))
            return
        except (VdeError, OSError) as error:
            self.tell(replace(decision, outcome="failed", error=str(error)))
            return
        self.tell(replace(decision, outcome="done" if done else "kept"))
