"""Rewrite the JSON of snapshots, plans, tables and fills in the form that msgspec reads."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

Json = Any

_LOCATION = ("path", "line", "column")
_PYTHON = ("entrypoint", "files", "outside", "variables", "settings", "sqlmesh_dialect")
_AUDIT = ("name", "arguments", "query", "blocking", "reads")
_SNAPSHOT = (
    "id", "version", "fill_version", "metadata_hash", "layout_hash", "columns", "parents",
    "canonicaliser", "definition_hash", "reads", "forward",
)  # fmt: skip
_FORWARD = ("table_id", "own_id", "rows", "fill_version", "columns")
_PLAN = ("id", "environment", "kind", "base_version", "created_at", "start", "end", "expires_at")
_SKIPPED = ("since", "seconds", "bytes", "commit")
_INPUT = ("snapshot_id", "read_id", "digests", "columns", "schema_id", "file")


def upgrade() -> None:
    _rewrite("vde_snapshots", {"payload": _compressed(_snapshot, 6)})
    _rewrite("vde_plans", {"payload": _compressed(_plan, 3)})
    _rewrite("vde_tables", {"columns": _text(_stored_columns)})
    facts = {
        "inputs": _text(lambda data: {key: _named(_INPUT, one) for key, one in data.items()}),
        "output": _text(_output),
        "skipped": _text(lambda data: _named(_SKIPPED, data)),
        "lacks": _text(lambda data: [[[s, n], _ranges(ranges)] for s, n, *ranges in data]),
    }
    _rewrite("vde_fills", facts)
    _rewrite("vde_pending_intervals", facts)


def _rewrite(name: str, changes: dict[str, Callable[[Any], Any]]) -> None:
    connection = op.get_bind()
    table = sa.Table(name, sa.MetaData(), autoload_with=connection)
    keys = list(table.primary_key.columns)
    some = sa.or_(*(table.c[column].is_not(None) for column in changes))
    changed = (
        sa.update(table)
        .where(*(key == sa.bindparam(f"of_{key.name}") for key in keys))
        .values({column: sa.bindparam(f"new_{column}") for column in changes})
    )
    places = connection.execute(sa.select(*keys).where(some)).all()
    query = sa.select(*keys, *(table.c[column] for column in changes))
    for first in range(0, len(places), 500):
        among = sa.tuple_(*keys).in_([tuple(place) for place in places[first : first + 500]])
        connection.execute(
            changed,
            [
                {f"of_{key.name}": value for key, value in zip(keys, row, strict=False)}
                | {
                    f"new_{column}": None if value is None else change(value)
                    for (column, change), value in zip(
                        changes.items(), row[len(keys) :], strict=True
                    )
                }
                for row in connection.execute(query.where(among)).all()
            ],
        )


def _compressed(change: Callable[[Json], Json], level: int) -> Callable[[bytes], bytes]:
    def rewritten(data: bytes) -> bytes:
        try:
            old = json.loads(zlib.decompress(data))
        except (zlib.error, ValueError):
            return data  # Damaged: told to whoever reads it.
        return zlib.compress(msgspec.msgpack.encode(change(old)), level)

    return rewritten


def _text(change: Callable[[Json], Json]) -> Callable[[str], str]:
    return lambda text: msgspec.json.encode(change(json.loads(text))).decode()


def _named(names: Sequence[str], values: Sequence[Json]) -> dict[str, Json]:
    return dict(zip(names, values, strict=False))


def _ranges(ranges: Json) -> Json:
    return {"ranges": [_named(("start", "end"), one) for one in ranges]}


def _model(data: Json) -> Json:
    data["location"] = _named(_LOCATION, data["location"])
    if "python" in data:
        data["python"] = _named(_PYTHON, data["python"])
    data["columns"] = [
        _named(("name", "type", "description"), one) for one in data.get("columns", ())
    ]
    data["audits"] = [_named(_AUDIT, one) for one in data.get("audits", ())]
    data["signals"] = [
        {"name": name, "arguments": arguments, "python": _named(_PYTHON, code)}
        for name, arguments, *code in data.get("signals", ())
    ]
    return data


def _snapshot(data: Json) -> Json:
    model, values = data
    found = _named(_SNAPSHOT, values)
    found["version"] = _named(("rows", "columns", "opaque", "unique_keys"), found["version"])
    if "forward" in found:
        found["forward"] = _named(_FORWARD, found["forward"])
    return {"model": _model(model), **found}


def _plan(data: Json) -> Json:
    head, models, views, entries, snapshot_ids, warnings, *rest = data
    rare = rest[0] if rest else {}
    read = [_planned(*model) for model in models]
    if entries is None:
        tables = ((one, (one["table"] or {}).get("id")) for one in read)
        entries = [[*one["name"], one["snapshot_id"], of] for one, of in tables]
        entries = [entry for entry in entries if entry[2] is not None]
    if snapshot_ids is None:
        snapshot_ids = list(dict.fromkeys(entry[2] for entry in entries))
    proposal = rare.get("proposal", ())
    plan = {
        **_named(_PLAN, head),
        "models": read,
        "views": {
            what: [_named(("namespace", "name"), ref) for ref in refs]
            for what, refs in zip(("created", "replaced", "dropped"), views, strict=True)
        },
        "entries": {
            (space, name): {"name": [space, name], "snapshot_id": snapshot, "table_id": table}
            for space, name, snapshot, table in entries
        },
        "snapshots": {},
        "warnings": warnings,
        "restates": {tuple(name): _ranges(ranges) for name, ranges in rare.get("restates", ())},
        "outdates": [_outdated(*one) for one in rare.get("outdates", ())],
        "statements": _named(("before", "after"), rare.get("statements", ())),
        "other_statements": rare.get("other_statements", False),
        "proposal": None
        if proposal is None or head[2] == "run"
        else _named(("files", "author"), proposal),
    }
    return [plan, snapshot_ids]


def _outdated(name: Json, environments: Json, table_id: str, ranges: Json, whole: bool) -> Json:
    return {
        "name": name,
        "environments": environments,
        "table_id": table_id,
        "intervals": _ranges(ranges),
        "whole": whole,
    }


def _planned(space: str, name: str, snapshot: Json, table: Json, work: Json = None) -> Json:
    found = {
        "name": [space, name],
        "snapshot_id": snapshot,
        "table": _table(*table) if table else None,
    }
    if work is None:
        idle: Json = {"change": "unchanged", "category": None, "reasons": [], "builds": False}
        return {**found, **idle, "previous_snapshot_id": snapshot}
    work["previous_snapshot_id"] = work.pop("previous")
    work["intervals"] = _ranges(work["intervals"])
    work["breaks"] = [_break(found["name"], *one) for one in work.get("breaks", ())]
    for key, names in (("skips", _SKIPPED), ("batches", ("count", "bytes"))):
        if key in work:
            work[key] = _named(names, work[key])
    if "in_place" in work:
        ref, deploys, columns, since = work["in_place"]
        work["in_place"] = {
            "table": _named(("namespace", "name"), ref),
            "deploys": deploys,
            "columns": columns,
            "effective_from": since,
        }
    return {**found, **work}


def _break(
    model: Json, column: str, was: str, becomes: str, widens: bool, readers: Json, new: Json = None
) -> Json:
    return {
        "model": model,
        "column": column,
        "was": was,
        "becomes": becomes,
        "widens": widens,
        "readers": [[[space, name], made] for space, name, *made in readers],
        "renamed": new,
    }


def _table(*values: Json) -> Json:
    id_, space, name, fill, columns, snapshot, ranges, created, *special = values
    return {
        "id": id_,
        "ref": {"namespace": space, "name": name},
        "fill_version": fill,
        "snapshot_id": snapshot,
        "intervals": _ranges(ranges),
        "created": created,
        **_stored_columns({**(special[0] if special else {}), "columns": columns}),
    }


def _stored_columns(data: Json) -> Json:
    found = data if isinstance(data, dict) else {"columns": data}
    if "preview" in found:
        of, branch, ranges = found["preview"]
        found["preview"] = {"of": of, "branch": branch, "inherited": _ranges(ranges)}
    found["columns"] = [
        [name, version, type_, rest[1:], True]
        if rest and rest[0] is True
        else [name, version, type_, rest, False]
        for name, version, type_, *rest in found["columns"]
    ]
    return found


def _output(data: Json) -> Json:
    found = _named(("sets", "tiles", "whole", "same", "against"), data)
    found["tiles"] = [
        {"interval": {"start": start, "end": end}, "rows": rows, "digests": digests}
        for start, end, rows, *digests in found["tiles"]
    ]
    return found
