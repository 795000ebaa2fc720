"""What a sink is: the protocol that destinations keep, found on the entry points `sinks`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from vde_dagster.api.errors import ExecutionError
from vde_dagster.base.plugins import Seam

if TYPE_CHECKING:
    import pyarrow as pa

    from vde_dagster.api.workspace import Workspace
    from vde_dagster.plugins.sync.ledger import Ledger

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """The way from one published version to another, which is delivered in batches.

    Args:
        since: The version that the outside has; 0 where that is not known, or it is another form
            of the rows: then all rows are sent, and compared there if it can be.
        schema: The columns, in the case of their author, with Arrow's types.
        names: The columns of the view by the names in the schema.
    """

    sync: str
    environment: str
    since: int
    until: int
    mode: str
    key: tuple[str, ...]
    schema: pa.Schema
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows to put outside, by key where there is one, and keys of rows to take away.

    Args:
        number: By which a step's batches differ: `12`, and `12.1` and `12.2` for its halves.
    """

    number: str
    rows: Sequence[Row] = ()
    gone: Sequence[Row] = ()

    def __len__(self) -> int:
        return len(self.rows) + len(self.gone)

    def halves(self) -> tuple[Batch, Batch]:
        """Split it, to find the rows that are refused."""
        at = len(self) // 2
        rows, gone = self.rows, self.gone
        behind = max(0, at - len(rows))
        return (
            Batch(f"{self.number}.1", rows[:at], gone[:behind]),
            Batch(f"{self.number}.2", rows[at:], gone[behind:]),
        )


class RowsRefused(ExecutionError):
    """The outside will not have a batch, whoever asks again."""


class Delivery(Protocol):
    """A sink that is open for one sync of one environment."""

    @property
    def ledger(self) -> Ledger:
        """Where it is remembered how far the outside is."""

    def begin(self, step: Step) -> None:
        """Make ready for the batches of a step."""

    def send(self, batch: Batch) -> int:
        """Put a batch outside; twice is as once, unless the mode is `append`.

        Returns:
            How many of its rows were not there already, as far as that is known.

        Raises:
            RowsRefused: It never will be; none of it is outside.
            ExecutionError: It could not be now.
        """

    def end(self) -> int:
        """Finish the step: after all rows, take away what is no longer shown.

        Returns:
            How many rows that were.
        """


class Sink(Protocol):
    """A destination with its options: a `msgspec.Struct`, made of what a definition says."""

    @property
    def place(self) -> str:
        """Where it is, without secrets; rows that are elsewhere are other rows."""

    def open(
        self, workspace: Workspace, sync: str, *, dry: bool = False
    ) -> AbstractContextManager[Delivery]:
        """Connect, for a block.

        Args:
            sync: The sync and its environment, of which nobody else works meanwhile.
            dry: Whether only the ledger is read, and nothing may stay.
        """


SINKS: Seam[type[Any]] = Seam("sinks")
