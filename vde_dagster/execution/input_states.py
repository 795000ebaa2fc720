"""What the tables that a fill reads hold now, told from Iceberg's metadata and recorded digests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vde_dagster.errors import VdeError
from vde_dagster.lakehouse import Lakehouse
from vde_dagster.lakehouse.catalog import TABLE, Pointer
from vde_dagster.lakehouse.commit_line import commit_line
from vde_dagster.lakehouse.files import read_metadata
from vde_dagster.lakehouse.table_metadata import head_of
from vde_dagster.planning.contents import InputState, Output, state_of
from vde_dagster.planning.sources import TableRead

NOTHING_KNOWN: Mapping[str, InputState] = {}


@dataclass(frozen=True, slots=True)
class Inputs:
    """What tables hold.

    Args:
        states: By the tables' keys.
        unknown: Names of tables of which it cannot be told: no Iceberg tables of this catalog.
    """

    states: Mapping[str, InputState]
    unknown: tuple[str, ...] = ()


def input_states(
    lakehouse: Lakehouse,
    reads: Sequence[TableRead],
    known: Mapping[str, InputState] = NOTHING_KNOWN,
) -> Inputs:
    """Look up what tables hold.

    Args:
        lakehouse: The catalog.
        reads: The tables, and what is read of them.
        known: Earlier answers: where a table's metadata file is that of one, nothing is read.
    """
    pointers = lakehouse.catalog.pointers([read.ref for read in reads])
    states: dict[str, InputState] = {}
    unknown: list[str] = []
    for read in reads:
        pointer = pointers.get(read.ref) if read.foreign is None else None
        before = known.get(read.key)
        if pointer is None or pointer.kind != TABLE:
            unknown.append(read.key if read.foreign else str(read.ref))
        elif before is not None and before.file and _is_same(before, read, pointer):
            states[read.key] = before
        else:
            try:
                states[read.key] = _state(lakehouse, read, pointer)
            except (VdeError, OSError):
                unknown.append(str(read.ref))
    return Inputs(states, tuple(unknown))


def moved(before: Inputs, after: Inputs, reads: Sequence[TableRead]) -> bool:
    """Say whether somebody may have read one thing and another: a table changed in between."""
    if before.unknown or after.unknown:
        return True
    for read in reads:
        one, other = before.states[read.key], after.states[read.key]
        # Others may take a table's state back to what it was; each step has a file of its own.
        if one.file != other.file if read.external else one.read_id != other.read_id:
            return True
    return False


def _file(read: TableRead, pointer: Pointer) -> str:
    """Name a metadata file where it alone says what `main` holds."""
    return "" if read.branch is not None else pointer.location.rpartition("/")[2]


def _is_same(before: InputState, read: TableRead, pointer: Pointer) -> bool:
    return before.file == _file(read, pointer) and before.columns == read.columns


def _state(lakehouse: Lakehouse, read: TableRead, pointer: Pointer) -> InputState:
    metadata = read_metadata(lakehouse.files, pointer.location, str(read.ref))
    line = commit_line(metadata, head_of(metadata, read.branch), read.key)

    def output(commit: int) -> Output | None:
        return lakehouse.store.facts.output(read.key, commit)

    found = state_of(line, read.columns, output)
    schema = int(metadata["current-schema-id"]) if read.external else None
    return replace(found, schema_id=schema, file=_file(read, pointer))
