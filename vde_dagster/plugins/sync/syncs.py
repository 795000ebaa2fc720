"""Running syncs: plan a run, send changes, resend refused rows, report positions."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from vde_dagster.api.errors import UsageError, VdeError
from vde_dagster.api.plans import Environment, environment_name
from vde_dagster.api.sinks import Batch, Delivery, Step
from vde_dagster.api.values import json_value, suggest
from vde_dagster.plugins.sync.changed_rows import Change, ChangedRows, changed_rows
from vde_dagster.plugins.sync.definitions import SyncDefinition, read_syncs
from vde_dagster.plugins.sync.ledger import Ledger, SyncCursor, open_ledger

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace

LEASE_SECONDS = 30.0
"""Seconds until the lease of a killed process ends."""


@dataclass(frozen=True, slots=True)
class SyncResult:
    """Result of a sync's run, or of a dry run.

    Args:
        since: The version that the outside system had; 0 if all rows were sent.
        why: Why all rows are sent again; None if only changes are sent, or on the first run.
        sent: Number of rows written or removed, or that a dry run would write or remove.
        unchanged: Number of compared rows that the outside system already has.
        sample: Some changes, for a dry run.
    """

    sync: str
    environment: str
    since: int
    until: int
    why: str | None = None
    sent: int = 0
    unchanged: int = 0
    refused: int = 0
    sample: list[Change] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        shown = [{"change": kind, "row": json_value(row)} for kind, row in self.sample]
        found: dict[str, Any] = msgspec.to_builtins({**asdict(self), "sample": shown})
        return found


_NO_POSITION = SyncCursor()


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """Position of a sync in one environment.

    Args:
        current: The environment's current version; 0 if the environment does not exist.
        waiting: Number of refused rows that were not accepted later.
        problem: The reason why the position cannot be read, if any.
    """

    sync: str
    environment: str
    current: int
    cursor: SyncCursor = _NO_POSITION
    waiting: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _OpenSink:
    delivery: Delivery
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Syncs:
    workspace: Workspace

    def select(self, environment: str, names: list[str] | None) -> list[SyncDefinition]:
        """Return the given syncs, or all syncs that send from an environment.

        Raises:
            UsageError: A name is unknown, or no sync sends from the environment.
        """
        known, environment = read_syncs(self.workspace), environment_name(environment)
        unknown = [name for name in names or () if name not in known]
        if unknown or not known:
            raise UsageError(
                f"the sync '{unknown[0]}' does not exist"
                if unknown
                else "the project has no syncs",
                hint=suggest(unknown[0], list(known), "syncs")
                if unknown and known
                else "define one in syncs.yaml, see `vde help sync`",
            )
        if names:
            return [known[name] for name in names]
        found = [one for one in known.values() if environment in one.to]
        if not found:
            raise UsageError(
                f"no sync sends from the environment '{environment}'",
                hint=f"add '{environment}' under `to` of a sync in syncs.yaml",
            )
        return found

    def plan(self, definition: SyncDefinition, environment: str, *, limit: int = 10) -> SyncResult:
        """Count the changes that a run would send, without sending them.

        Raises:
            UsageError: The sync sends nothing from the environment, or `run` would fail.
        """
        with self._open(definition, environment, dry=True) as (outside, version):
            cursor = outside.ledger.cursor()
            done = SyncResult(definition.name, version.name, cursor.version, version.version)
            if _is_up_to_date(cursor, version):
                return done
            with self._changes(definition, version, cursor) as found:
                for kind, row in found.net_changes(found.key):
                    if _is_sent(kind, definition):
                        done = _add_counts(done, sent=1)
                        if len(done.sample) < limit:
                            done.sample.append((kind, row))
                    else:
                        done = _add_counts(done, unchanged=int(kind == "same"))
                return replace(done, since=found.since, why=found.why)

    def run(
        self, definition: SyncDefinition, environment: str, *, full: bool = False
    ) -> SyncResult:
        """Send the changes since the last run, or all rows if `full`.

        Raises:
            UsageError: The sync sends nothing from the environment, the environment lacks the
                model, or the key does not identify the model's rows.
            ConflictError: Another process runs the sync.
            ExecutionError: The outside system could not be reached.
        """
        with self._open(definition, environment) as (outside, version):
            cursor = outside.ledger.cursor()
            total = SyncResult(definition.name, version.name, cursor.version, version.version)
            # An interrupted run of all rows continues, under its own idempotency keys.
            if full and (cursor.version or cursor.pending != version.version):
                cursor = _NO_POSITION
            # An interrupted step is finished first. Otherwise a row of that step would stay outside
            # if the next version changed the row back, because the row would not count as changed.
            for target in self._targets(cursor, version):
                if target is not None and _is_up_to_date(cursor, target):
                    continue
                try:
                    if target is None:
                        raise UsageError("the version that the interrupted run sent was deleted")
                    done = self._deliver(definition, outside, target, cursor)
                except UsageError:
                    if target is version:
                        raise
                    cursor = replace(cursor, publication="")  # What is outside is not known.
                    continue
                total = _add_counts(total, done.sent, done.unchanged, done.refused)
                since, why = min(total.since, done.since), total.why or done.why
                total = replace(total, since=since, why=why)
                cursor = outside.ledger.cursor()
            return total

    def _targets(self, cursor: SyncCursor, version: Environment) -> list[Environment | None]:
        if cursor.pending in (None, version.version):
            return [version]
        return [self.workspace.store.versions.at(version.name, cursor.pending or 0), version]

    def status(self) -> list[SyncStatus]:
        found = []
        for definition in read_syncs(self.workspace).values():
            for name in definition.to:
                known = self.workspace.store.environments.get(name)
                own = SyncStatus(definition.name, name, known.version if known is not None else 0)
                try:
                    what = f"{definition.name}/{name}"
                    with definition.sink_for(name).open(self.workspace, what, dry=True) as opened:
                        ledger = open_ledger(self.workspace, what, opened)
                        own = replace(own, cursor=ledger.cursor(), waiting=ledger.count_refused())
                except VdeError as error:
                    own = replace(own, problem=error.message)
                found.append(own)
        return found

    def replay(self, definition: SyncDefinition, environment: str) -> SyncResult:
        """Send refused rows again, with values of the last sent version; errors as for `run`."""
        with self._open(definition, environment) as (outside, version):
            ledger = outside.ledger
            cursor, letters = ledger.cursor(), ledger.refused_rows()
            done = SyncResult(definition.name, version.name, cursor.version, cursor.version)
            at = self.workspace.store.versions.at(version.name, cursor.version)
            if not letters:
                return done
            if at is None or cursor.pending is not None:
                raise UsageError(
                    f"refused rows of '{definition.name}' cannot be replayed: its last run "
                    + ("was interrupted" if cursor.pending else "sent a version that is deleted"),
                    hint=f"run `vde sync run {version.name} {definition.name}` first",
                )
            with self._changes(definition, at, replace(cursor, version=0)) as found:
                step = self._step(definition, at, cursor.version, found, f"{cursor.at}")
                outside.delivery.begin(step)
                again = _refused_changes(found, [one.row for one in letters])
                changes = (one for one in again if _is_sent(one[0], definition))
                for batch in _batches(changes, definition, f"replay {letters[-1].number}."):
                    done = _send(outside, at, batch, done)
                ledger.delete_refused(
                    one.number for one in letters
                )  # Those refused again are new ones.
            return done

    @contextmanager
    def _open(
        self, definition: SyncDefinition, environment: str, *, dry: bool = False
    ) -> Iterator[tuple[_OpenSink, Environment]]:
        workspace, name = self.workspace, environment_name(environment)
        sink, what = definition.sink_for(name), f"{definition.name}/{name}"
        workspace.environments.named(name)
        workspace.store.project.require_own()
        if dry:
            with sink.open(workspace, what, dry=True) as delivery:
                ledger = open_ledger(workspace, what, delivery)
                yield _OpenSink(delivery, ledger), workspace.environments.named(name)
            return
        leases = workspace.store.leases
        with (
            leases.holding(
                f"sync/{what}", ttl_seconds=LEASE_SECONDS, wait_seconds=LEASE_SECONDS * 1.5
            ) as held,
            sink.open(workspace, what) as delivery,
        ):
            check = partial(leases.check, lease=held.lease)
            ledger = open_ledger(workspace, what, delivery, check)
            yield _OpenSink(delivery, ledger), workspace.environments.named(name)

    @contextmanager
    def _changes(
        self, definition: SyncDefinition, version: Environment, cursor: SyncCursor
    ) -> Iterator[ChangedRows]:
        place = definition.sink_for(version.name).place
        with changed_rows(self.workspace, definition, version, cursor, place) as found:
            if found.why is not None and definition.mode == "append":
                raise UsageError(
                    f"'{definition.name}' cannot continue from version {cursor.version}, and would "
                    f"add rows twice: {found.why}",
                    hint=f"`vde sync run {version.name} {definition.name} --full` adds all rows",
                )
            found.require_key(found.key)
            yield found

    def _step(
        self,
        definition: SyncDefinition,
        version: Environment,
        since: int,
        found: ChangedRows,
        run: str,
    ) -> Step:
        names = (definition.name, version.name, since, version.version)
        return Step(*names, definition.mode, found.key, found.schema, found.names, run)

    def _deliver(
        self,
        definition: SyncDefinition,
        outside: _OpenSink,
        version: Environment,
        cursor: SyncCursor,
    ) -> SyncResult:
        with self._changes(definition, version, cursor) as found:
            run = outside.ledger.record_begin(cursor, version.version)
            earlier = _earlier_refused(outside.ledger, version, found)
            outside.delivery.begin(self._step(definition, version, found.since, found, run))
            done = SyncResult(
                definition.name, version.name, found.since, version.version, found.why
            )
            changes = self._count_unchanged(found, definition, same := [0])
            sent_again: list[int] = []
            for batch in _batches(changes, definition):
                done = _send(outside, version, batch, done)
                for row in (*batch.rows, *batch.gone):
                    sent_again += earlier.pop(_identity(row, found), ())
            done = _add_counts(done, sent=outside.delivery.end(), unchanged=same[0])
            if found.key and not found.since:
                sent_again += chain(*earlier.values())  # No row of the version has these keys.
            outside.ledger.delete_refused(sent_again)
            outside.ledger.record_done(
                SyncCursor(
                    *(version.version, version.publication_id, found.shape, None),
                    *(done.sent, done.unchanged, done.refused),
                )
            )
            return done

    def _count_unchanged(
        self, found: ChangedRows, definition: SyncDefinition, same: list[int]
    ) -> Iterator[Change]:
        for change in found.net_changes(found.key):
            if _is_sent(change[0], definition):
                yield change
            else:
                same[0] += change[0] == "same"


def _is_sent(kind: str, definition: SyncDefinition) -> bool:
    return kind == "row" or (kind == "gone" and definition.mode == "mirror")


def _is_up_to_date(cursor: SyncCursor, version: Environment) -> bool:
    # After the state was replaced, a version of the same number has another publication.
    same = cursor.version == version.version and cursor.publication == version.publication_id
    return same and cursor.pending is None


def _add_counts(
    done: SyncResult, sent: int = 0, unchanged: int = 0, refused: int = 0
) -> SyncResult:
    return replace(
        done,
        sent=done.sent + sent,
        unchanged=done.unchanged + unchanged,
        refused=done.refused + refused,
    )


def _batches(
    changes: Iterator[Change], definition: SyncDefinition, prefix: str = ""
) -> Iterator[Batch]:
    number = 0
    while part := list(islice(changes, definition.batch)):
        number += 1
        rows, gone = ([row for kind, row in part if kind == one] for one in ("row", "gone"))
        yield Batch(f"{prefix}{number}", rows, gone)


def _send(outside: _OpenSink, version: Environment, batch: Batch, done: SyncResult) -> SyncResult:
    """Send a batch. If the sink refuses it, halve it until the refused rows are found."""
    try:
        sent = outside.delivery.send(batch)
    except Batch.Refused as error:
        if len(batch) > 1:
            for half in batch.halves():
                done = _send(outside, version, half, done)
            return done
        (row,) = (*batch.rows, *batch.gone)
        outside.ledger.store_refused(
            version.version, msgspec.json.encode(json_value(row)), error.message
        )
        return _add_counts(done, refused=1)
    return _add_counts(done, sent=sent, unchanged=len(batch) - sent)


def _earlier_refused(
    ledger: Ledger, version: Environment, found: ChangedRows
) -> dict[str, list[int]]:
    """Map each `_identity` to the `RefusedRow.number` of its rows that a step may send again.

    Without a key, only a step that sends all rows, or that continues an interrupted step, sends a
    refused row again. In any other step, a row that equals a refused row is an additional row.
    """
    numbers: dict[str, list[int]] = {}
    for one in ledger.refused_rows():
        if found.key or not found.since or one.version == version.version:
            known = _spell_names(one.row, found)
            numbers.setdefault(_identity(known, found), []).append(one.number)
    return numbers


def _spell_names(row: Mapping[str, Any], found: ChangedRows) -> dict[str, Any]:
    # Letters of earlier releases have all names in lower case.
    names = {name.lower(): name for name in found.schema.names}
    return {names[name.lower()]: value for name, value in row.items() if name.lower() in names}


def _identity(row: Mapping[str, Any], found: ChangedRows) -> str:
    names = found.key or found.schema.names
    return json.dumps([json_value(row.get(name)) for name in names])


def _refused_changes(found: ChangedRows, refused: list[dict[str, Any]]) -> Iterator[Change]:
    """Yield the current row of each refused key, or a deletion if no row has the key any longer.

    Without a key, yield the refused rows.
    """
    key, known = found.key, [_spell_names(row, found) for row in refused]
    if not key:
        types = {field.name: field.type for field in found.schema}
        yield from (
            ("row", {name: parse_json_value(value, types[name]) for name, value in row.items()})
            for row in known
        )
        return
    wanted = {_identity(row, found): row for row in known}
    for _, row in found.net_changes(key):
        if wanted.pop(_identity(row, found), None) is not None:
            yield "row", row
    for row in wanted.values():
        yield "gone", {name: row.get(name) for name in key}


def parse_json_value(value: Any, type_: pa.DataType) -> Any:
    """Convert a JSON value to bytes, a decimal or a float if its type requires it."""
    kinds = pa.types
    if not isinstance(value, str):
        return value
    if kinds.is_binary(type_) or kinds.is_large_binary(type_) or kinds.is_fixed_size_binary(type_):
        return base64.b64decode(value)
    if kinds.is_decimal(type_):
        return Decimal(value)
    return float(value) if kinds.is_floating(type_) else value
