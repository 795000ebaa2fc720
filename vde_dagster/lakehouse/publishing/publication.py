"""A publication: all changes that become visible together, including changes of tables.

Changes of tables are computed before the commit, and again if a table has changed meanwhile. For a
catalog outside the state's database, the changes are stored with the publication. When the
publication is finished, they are computed again from the tables' current metadata.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError
from vde_dagster.lakehouse.catalogs.catalog import TABLE, VIEW, Swap
from vde_dagster.lakehouse.metadata import changes
from vde_dagster.lakehouse.metadata.commit_summaries import TABLE_KEY, plan_of_branch
from vde_dagster.lakehouse.metadata.table_metadata import (
    MAIN,
    ancestors,
    current_schema,
    head_of,
    history,
)
from vde_dagster.lakehouse.metadata.types import spark_to_iceberg
from vde_dagster.lakehouse.publishing.shown_tables import SHOWN
from vde_dagster.planning.engine_tasks import ViewDefinition
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.affected_intervals import RestatedRanges
from vde_dagster.planning.plan.plan import EnvironmentStatements
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PREVIEW_PREFIX, PhysicalTable, TableRef
from vde_dagster.state.db.leases import Lease
from vde_dagster.state.environments.publications import PublishedFile, ReturnedTo


@dataclass(frozen=True, slots=True)
class FastForward:
    """Moves a table's `main` to the rows that a plan wrote on a branch.

    Args:
        expected_main: The snapshot at which `main` must be; None allows any ancestor of the branch.
        into: The branch that moves in place of `main`, for a preview.
    """

    ref: TableRef
    table_id: str
    branch: str
    # From an ancestor of the branch, `main` moves without losing a commit.
    expected_main: int | None = None
    into: str | None = None


@dataclass(frozen=True, slots=True)
class Return:
    """Rolls a table back to an earlier Iceberg snapshot.

    Args:
        filled: The ranges that were filled in the earlier snapshot.
        expected: The snapshot at which the table must be; otherwise the rollback fails.
        into: The branch that moves in place of `main`, for a preview.
        as_of: Time (UTC). Ranges that became outdated after this time become valid again. None
            leaves outdated ranges unchanged.
    """

    ref: TableRef
    table_id: str
    snapshot_id: int | None
    filled: IntervalSet
    expected: int | None
    into: str | None = None
    as_of: datetime | None = None
    left: frozenset[int] = frozenset()
    found: frozenset[int] = frozenset()

    @property
    def moves(self) -> bool:
        """Whether the rollback changes rows, and not only the filled ranges."""
        return self.snapshot_id != self.expected


@dataclass(frozen=True, slots=True)
class Deployment:
    """A table that stays in place and is filled by its model's new definition from now on."""

    table: PhysicalTable
    widened: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Holding:
    """A new version of an environment, published together with another environment's rollback.

    It pins the rows that the rollback would otherwise remove from the environment's views.
    """

    environment: Environment
    base_version: int
    views: tuple[ViewDefinition, ...]


@dataclass(frozen=True, slots=True)
class Publication:
    """All changes of views, tables and state that become visible in one transaction.

    Args:
        dropped: Views to remove. Views that vde did not publish stay.
        ends_environment: Whether the environment is dropped with all its views.
        changed: Ranges that a restatement computed again.
        snapshots: Snapshots of the environment that are already in memory, by id.
        before_and_after: New statements to run before and after later runs; None for no change.
        sources: The (environment, version) pairs whose pins the new version shows.
    """

    environment: Environment
    base_version: int
    views: tuple[ViewDefinition, ...] = ()
    dropped: tuple[TableRef, ...] = ()
    fast_forwards: tuple[FastForward, ...] = ()
    plan_id: str | None = None
    leases: tuple[Lease, ...] = ()
    statements: tuple[tuple[ModelName, str], ...] = ()
    ends_environment: bool = False
    # Rows that were computed from these ranges become outdated.
    changed: RestatedRanges | None = None
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    deployments: tuple[Deployment, ...] = ()
    returns: tuple[Return, ...] = ()
    holding: tuple[Holding, ...] = ()
    before_and_after: EnvironmentStatements | None = None
    # These versions must still exist when the publication commits.
    sources: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class TableMove:
    """The change of one table by a publication: new rows, wider column types, or a rollback."""

    ref: TableRef
    table_id: str
    forward: FastForward | None = None
    widened: Mapping[str, str] = field(default_factory=dict)
    back: Return | None = None

    @property
    def branch(self) -> str | None:
        """The branch that moves, or None for `main`."""
        return self.forward.into if self.forward else self.back.into if self.back else None

    def updates(self, metadata: dict[str, Any]) -> changes.Updates:
        """Build the updates that apply this change to the table's current metadata."""
        moved: changes.Updates = ()
        if self.forward is not None:
            one = self.forward
            moved = changes.fast_forward(
                metadata, one.branch, str(self.ref), expected_main=one.expected_main, into=one.into
            )
        elif self.back is not None:
            moved = _return(metadata, self.back)
        return (*moved, *changes.widen_columns(metadata, self.widened))

    def remaining(self, metadata: dict[str, Any], to: int | None) -> changes.Updates:
        """Build the updates for the part of the change that is missing in the current metadata.

        Args:
            to: The commit that a branch moves to; None in publications of older versions of vde.

        Raises:
            ConflictError: `main` was written by a program other than vde.
        """
        head = head_of(metadata, self.branch)
        if self.back is not None:
            arrived = head == self.back.snapshot_id
        elif self.forward is not None and to is None:
            # Older versions of vde removed the plan's branch after the move.
            arrived = head_of(metadata, self.forward.branch) is None
        else:
            arrived = to in ancestors(metadata, head)
        types = {one["name"]: one["type"] for one in current_schema(metadata)["fields"]}
        left = replace(
            self,
            forward=None if arrived else self.forward,
            back=None if arrived else self.back,
            widened={
                name: type_
                for name, type_ in self.widened.items()
                if changes.is_promotion(types.get(name), spark_to_iceberg(type_, int))
            },
        )
        return left.updates(metadata)


def announced_file(
    swap: Swap, move: TableMove | None = None, to: int | None = None
) -> PublishedFile:
    """Build the record of a catalog change, which is stored with the publication."""
    forward, back = (move.forward, move.back) if move is not None else (None, None)
    # A table that does not move is only shown in place of a view, or was.
    is_shown = swap.kind == TABLE and move is None
    return PublishedFile(
        location=swap.after or "",
        previous=swap.before,
        kind=SHOWN if is_shown else swap.kind.lower(),
        ref=swap.ref,
        branch=forward.branch if forward else back.into if back else None,
        table_id=move.table_id if move is not None and (forward or back) else None,
        returned=ReturnedTo(back.expected, back.snapshot_id, back.filled) if back else None,
        into=forward.into if forward else None,
        snapshot_id=to if forward else None,
        widened=tuple(move.widened.items()) if move is not None else (),
    )


def announced_change(file: PublishedFile) -> tuple[Swap, TableMove | None]:
    """Parse a record of `announced_file` into the catalog change and the table's change, if any."""
    assert file.ref is not None
    kind = VIEW if file.kind == VIEW.lower() else TABLE
    swap = Swap(file.ref, kind, file.previous, file.location or None)
    if file.kind != TABLE.lower():
        return swap, None
    table_id = file.table_id or ""
    forward, back = None, None
    if file.returned is not None:
        to = file.returned
        back = Return(file.ref, table_id, to.snapshot_id, to.filled, to.expected, file.branch)
    elif file.branch is not None:
        forward = FastForward(file.ref, table_id, file.branch, into=file.into)
    return swap, TableMove(file.ref, table_id, forward, dict(file.widened), back)


def table_moves(publication: Publication) -> list[TableMove]:
    widened = {item.table.ref: item for item in publication.deployments if item.widened}
    forwards = {item.ref: item for item in publication.fast_forwards}
    moves = []
    for ref in dict.fromkeys([*forwards, *widened]):
        forward, wider = forwards.get(ref), widened.get(ref)
        table_id = forward.table_id if forward is not None else widened[ref].table.id
        moves.append(TableMove(ref, table_id, forward, dict(wider.widened) if wider else {}))
    returns = [one for one in publication.returns if one.moves]
    moves += [TableMove(one.ref, one.table_id, back=one) for one in returns]
    refs = [*(one.ref for one in publication.fast_forwards), *(one.ref for one in returns)]
    # A table's `main` and a preview's branch cannot move together.
    twice = sorted((ref for ref, number in Counter(refs).items() if number > 1), key=str)
    if twice:
        raise ConflictError(
            f"two branches of {twice[0]} would move at once, because models of the environment "
            "show different branches of this table (`main` or previews)",
            hint="publish the change in place first, or let one of these models read the "
            "other model",
        )
    return moves


def _return(metadata: dict[str, Any], back: Return) -> changes.Updates:
    now = head_of(metadata, back.into)
    if now not in (back.expected, back.snapshot_id):
        raise ConflictError(
            f"the table {back.ref} was written by another program: {back.into or MAIN} is at "
            f"{now}, not at {back.expected}",
            hint="roll back again: vde rollback ENV",
        )
    # Branches of plans end, too. Their unpublished commits are based on rows that the rollback
    # removes, or fill ranges that must be computed again.
    ended = attempts(metadata, back.table_id, back.into)
    return changes.move_back(metadata, back.snapshot_id, str(back.ref), back.into, ended)


def attempts(metadata: dict[str, Any], table_id: str, into: str | None) -> set[str]:
    """List the plans' branches whose commits are all fills of the given table.

    Commits without a table id, and commits that `main` (or the branch `into`) also contains, are
    ignored.
    """
    shown = ancestors(metadata, head_of(metadata, into))
    found = set()
    for name in metadata.get("refs", {}):
        if name.startswith(PREVIEW_PREFIX) or plan_of_branch(name) is None:
            continue
        beyond = [
            one.get("summary", {}).get(TABLE_KEY)
            for one in history(metadata, head_of(metadata, name))
            if int(one["snapshot-id"]) not in shown
        ]
        if all(written in (None, table_id) for written in beyond):
            found.add(name)
    return found
