"""Digests of the rows of tables: of inputs when a fill read them, and of the filled table.

A digest is the sum of the rows' hashes, so the order of rows does not matter. If the digests of
some columns are equal in two tables, these columns have the same multiset of values, with an error
probability of 2^-128 per comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from vde_dagster.base.names import ModelName
from vde_dagster.base.work import Work
from vde_dagster.errors import StoreError
from vde_dagster.planning.changes.refresh import Refresh
from vde_dagster.planning.environments.resolver import Columns, includes_columns
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.tables.pinned_reads import Input, KeptCommit
from vde_dagster.planning.tables.table import ParentGaps
from vde_dagster.project.serialise import from_text, to_text

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tile:
    """Digests of the rows that a fill wrote for one range, or for the whole table.

    Args:
        interval: The range (UTC, half-open). For a table written as a whole, the fill's range.
        digests: One digest per set of columns, in the order of `Output.sets`.
    """

    interval: Interval
    rows: int
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Output:
    """Digests of the rows that a fill wrote.

    Args:
        sets: The sets of columns with digests.
        tiles: The digests of each range, or of the whole table.
        whole: Whether the digests cover all rows of the table, not only the rows of the fill.
        same: Indexes of the sets in `sets` whose values the fill did not change.
        against: Iceberg snapshots of the earlier fills whose digests were compared to find `same`.
    """

    sets: tuple[Columns, ...]
    tiles: tuple[Tile, ...]
    whole: bool
    same: tuple[int, ...] = ()
    against: tuple[int, ...] = ()

    def whole_digests(self) -> tuple[tuple[Columns, str], ...]:
        """Return the digests of all rows of the table, by set of columns; empty if unknown."""
        if not self.whole or len(self.tiles) != 1:
            return ()
        return tuple(zip(self.sets, self.tiles[0].digests, strict=True))

    def leaves_unchanged(self, wanted: Columns) -> bool:
        """Return whether the fill changed no values in the wanted columns."""
        return any(includes_columns(self.sets[place], wanted) for place in self.same)


@dataclass(frozen=True, slots=True)
class InputState:
    """The Iceberg snapshot and content hash of an input table when a fill read it.

    Args:
        snapshot_id: Iceberg snapshot that last changed the columns read; None for an empty table.
        read_id: The Iceberg snapshot that the fill read. If the next fill reads only changes, it
            reads the commits after this snapshot.
        digests: Digests of the rows, by set of columns. Each set includes all columns read.
        schema_id: Iceberg's id of the schema, for an external table.
        file: The name of the metadata file with this state.
        how: Which rows were read.
        since: The fill read the changes after this Iceberg snapshot; None if it read all rows.
    """

    snapshot_id: int | None
    # Snapshots between `snapshot_id` and `read_id` changed nothing.
    read_id: int | None = None
    digests: tuple[tuple[Columns, str], ...] = ()
    columns: Columns = None
    schema_id: int | None = None
    # As long as a table has this file, the file is not read again.
    file: str = field(default="", compare=False)
    how: Input = Input.WHOLE
    since: int | None = None

    def has_same_rows(self, other: InputState) -> bool:
        """Return whether two states certainly have the same rows in all columns that were read."""
        if self.schema_id != other.schema_id or not includes_columns(self.columns, other.columns):
            return False
        if self.snapshot_id == other.snapshot_id:
            return True
        return bool(set(self.digests) & set(other.digests))


@dataclass(frozen=True, slots=True)
class Skipped:
    """A fill that was recorded without computing, because the inputs had not changed.

    Args:
        since: Time (UTC) at which the table's current rows were computed.
        seconds, bytes: Duration and written bytes of the last computation, if known.
        commit: The table's Iceberg snapshot, if known.
        task_seconds: Total duration of that computation's Spark tasks, if known.
        bytes_read: Size of the files that these tasks scanned, if known.
    """

    since: datetime
    seconds: float | None = None
    bytes: int | None = None
    commit: int | None = None
    task_seconds: float | None = None
    bytes_read: int | None = None

    @property
    def work(self) -> Work:
        """The time and bytes saved, estimated from the last computation."""
        return Work.from_fill(self.seconds, self.task_seconds, self.bytes, self.bytes_read)


@dataclass(frozen=True, slots=True)
class FillFacts:
    """The inputs and the output of a recorded fill, if known.

    Args:
        inputs: States of the inputs, by table.
        skipped: The skip, if nothing was computed.
        lacks: Ranges that parents lacked, for a table that is replaced as a whole.
        refresh: How the rows were computed, for a model that may refresh from changes.
    """

    inputs: Mapping[str, InputState] | None = None
    output: Output | None = None
    skipped: Skipped | None = None
    lacks: ParentGaps = field(default_factory=dict)
    refresh: Refresh | None = None


def read_input_state(
    line: Sequence[KeptCommit], columns: Columns, output: Callable[[int], Output | None]
) -> InputState:
    """Find the Iceberg snapshot and the content hash of some columns of a table.

    Args:
        line: The table's commits that have not expired, newest first.
        output: Returns the recorded output of the fill that made a commit.
    """
    read = line[0].snapshot_id if line else None
    known: tuple[tuple[Columns, str], ...] | None = None
    for place, commit in enumerate(line):
        if commit.quiet and commit.parent_id is None:
            return InputState(None, read, columns=columns)
        goes_on = place + 1 < len(line)
        if commit.quiet and goes_on and (known is not None or not commit.ours):
            continue
        wrote = output(commit.snapshot_id) if commit.ours else None
        # Digests of the whole table hold back to the last commit that changed it.
        digests = wrote.whole_digests() if wrote is not None else ()
        known = known or tuple(pair for pair in digests if includes_columns(pair[0], columns))
        if goes_on and (
            commit.quiet
            or (
                wrote
                and wrote.leaves_unchanged(columns)
                and _untouched(line[place + 1 :], wrote.against)
            )
        ):
            continue
        return InputState(commit.snapshot_id, read, known, columns)
    return InputState(None, read, columns=columns)


def _untouched(line: Sequence[KeptCommit], against: tuple[int, ...]) -> bool:
    wanted = set(against)
    for commit in line:
        if not wanted:
            return True
        if not commit.ours and not commit.quiet:
            return False
        wanted.discard(commit.snapshot_id)
    return not wanted


def find_unchanged_sets(
    output: Output, earlier: Sequence[tuple[Interval, int | None, Output | None]]
) -> Output:
    """Return a fill's output, with `same` naming the sets of columns that the fill left unchanged.

    Args:
        earlier: (range, Iceberg snapshot, output) of overlapping recorded fills, newest first.
    """
    if output.whole:
        return output
    same = set(range(len(output.sets)))
    against: set[int] = set()
    for tile in output.tiles:
        if not tile.rows and not any(_overlap(tile.interval, filled) for filled, *_ in earlier):
            continue  # Nothing was there before, and nothing is there now.
        found = _last_tile(tile.interval, earlier)
        if found is None:
            return output
        commit, before, sets = found
        against.add(commit)
        same = {
            place
            for place in same
            if output.sets[place] in sets
            and before.digests[sets.index(output.sets[place])] == tile.digests[place]
        }
    return Output(output.sets, output.tiles, False, tuple(sorted(same)), tuple(sorted(against)))


def _overlap(one: Interval, other: Interval) -> bool:
    return one.start < other.end and other.start < one.end


def _last_tile(
    interval: Interval, earlier: Sequence[tuple[Interval, int | None, Output | None]]
) -> tuple[int, Tile, tuple[Columns, ...]] | None:
    for filled, commit, output in earlier:
        if not _overlap(filled, interval):
            continue
        tiles = output.tiles if output is not None else ()
        tile = next((tile for tile in tiles if tile.interval == interval), None)
        if tile is None or output is None or commit is None:
            return None
        return commit, tile, output.sets
    return None


def changed_inputs(was: Mapping[str, InputState], now: Mapping[str, InputState]) -> Iterator[str]:
    """Yield the keys of tables with changed rows, and of tables that were not read before."""
    for key, state in now.items():
        before = was.get(key)
        if before is None or not before.has_same_rows(state):
            yield key


def dump_facts(facts: FillFacts | None) -> dict[str, str | None]:
    """Write a fill's facts as JSON texts, by the state's column names."""
    facts = facts or FillFacts()
    values = {
        "inputs": facts.inputs,
        "output": facts.output,
        "skipped": facts.skipped,
        "lacks": tuple(facts.lacks.items()) or None,
        "refresh": facts.refresh,
    }
    return {name: None if value is None else to_text(value) for name, value in values.items()}


def load_facts(
    inputs: str | None,
    output: str | None,
    skipped: str | None,
    lacks: str | None = None,
    refresh: str | None = None,
) -> FillFacts:
    """Read the JSON texts that `dump_facts` wrote."""
    return FillFacts(
        _read(dict[str, InputState], inputs),
        load_output(output),
        _read(Skipped, skipped),
        load_parent_gaps(lacks),
        _read(Refresh, refresh),
    )


def load_output(text: str | None) -> Output | None:
    return _read(Output, text)


def load_parent_gaps(text: str | None) -> ParentGaps:
    return dict(_read(_PARENT_GAPS, text) or ())


def _read(form: type[T], text: str | None) -> T | None:
    try:
        return from_text(form, text) if text else None
    except ValueError as error:
        raise StoreError(
            f"the record of a fill in vde_fills is damaged: {error}",
            hint="restore the state database from a backup, or from 'vde state export'",
        ) from error


_PARENT_GAPS = tuple[tuple[ModelName, IntervalSet], ...]
