"""Sinks of syncs: outside systems that are kept equal to published views.

To add a sink, write a `msgspec.Struct` that implements `Sink`; its fields are the sink's options.
Register the class as an entry point in the group `vde_dagster.sinks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from vde_dagster.errors import ExecutionError

if TYPE_CHECKING:
    import pyarrow as pa

    from vde_dagster.execution.workspace import Workspace

__all__ = ["Batch", "Delivery", "Sink", "Step"]

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """The changes from one published version to another, which are delivered in batches.

    Args:
        since: The version in the outside system. 0 means that all rows are sent, for example on
            the first run or after the sync's columns changed. If the outside system can compare
            these rows with its own rows, it writes only rows that differ.
        until: The version to reach.
        mode: `upsert`, `mirror` or `append`.
        key: Columns that identify a row; empty for `append`.
        schema: The columns, spelled as in the model, with Arrow's types.
        names: For each column name in `schema`, the name of the same column in the view.
        run: Id of the run. A run that continues an interrupted run has the interrupted run's id.
    """

    sync: str
    environment: str
    since: int
    until: int
    mode: str
    key: tuple[str, ...]
    schema: pa.Schema
    names: Mapping[str, str] = field(default_factory=dict)
    run: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows to write to the outside system, and keys of rows to remove from it.

    Args:
        number: Unique number in the step: `12`, and `12.1` and `12.2` for its halves.
    """

    number: str
    rows: Sequence[Row] = ()
    gone: Sequence[Row] = ()

    def __len__(self) -> int:
        return len(self.rows) + len(self.gone)

    def halves(self) -> tuple[Batch, Batch]:
        """Split the batch, to find refused rows."""
        at = len(self) // 2
        rows, gone = self.rows, self.gone
        behind = max(0, at - len(rows))
        return (
            Batch(f"{self.number}.1", rows[:at], gone[:behind]),
            Batch(f"{self.number}.2", rows[at:], gone[behind:]),
        )

    class Refused(ExecutionError):
        """The outside system will never accept the batch."""


class Delivery(Protocol):
    """A sink that is open for one sync of one environment.

    A sink that writes rows in a transaction can have a method `transact(work, name)`, which calls
    `work` with the transaction's SQLAlchemy connection. The sync's position (the version that was
    sent last) is then written in that transaction, so rows arrive exactly once. Otherwise the
    position is in the state's database.
    """

    def begin(self, step: Step) -> None:
        """Prepare for the batches of a step."""

    def send(self, batch: Batch) -> int:
        """Write a batch to the outside system; unless the mode is `append`, writing is idempotent.

        Returns:
            The number of rows that changed in the outside system, as far as known.

        Raises:
            ExecutionError: The batch was not written, or it is unknown whether it was; it is sent
                again. `Batch.Refused`: it can never be written, and no row of it was.
        """

    def end(self) -> int:
        """Finish the step. If a mirror sent all rows, remove the rows that it did not send.

        Returns:
            The number of rows that this call removed, as far as known.
        """


class Sink(Protocol):
    """An outside system with its options: a `msgspec.Struct`, read from a sync's definition."""

    @property
    def place(self) -> str:
        """Return the system's address, without secrets. A new address gets all rows again."""

    def open(
        self, workspace: Workspace, sync: str, *, dry: bool = False
    ) -> AbstractContextManager[Delivery]:
        """Connect to the outside system while a `with` block runs.

        Args:
            sync: The sync and its environment, `customers/prod`; no other process works on it.
            dry: Whether the caller only reads the sync's position, and the outside system must not
                change.
        """
