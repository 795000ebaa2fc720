"""What fills remember as JSON, for the state store; lists without names, as there are many."""

from __future__ import annotations

import json
from typing import Any

from vde_dagster.base.instants import parse_instant
from vde_dagster.base.names import ModelName
from vde_dagster.planning.contents import FillFacts, InputState, Output, Skipped, Tile
from vde_dagster.planning.interval import Interval, IntervalSet, iso
from vde_dagster.planning.sources import Columns
from vde_dagster.planning.table import Lacks

Json = Any


def dump_facts(facts: FillFacts | None) -> dict[str, str | None]:
    """Write facts as texts by column: `inputs`, `output`, `skipped` and `lacks`."""
    facts = facts or FillFacts()
    inputs = None
    if facts.inputs is not None:
        inputs = {key: _input_to_json(state) for key, state in facts.inputs.items()}
    output = _output_to_json(facts.output) if facts.output is not None else None
    skipped = skipped_to_json(facts.skipped) if facts.skipped is not None else None
    return {
        "inputs": _text(inputs),
        "output": _text(output),
        "skipped": _text(skipped),
        "lacks": _text(_lacks_to_json(facts.lacks)) if facts.lacks else None,
    }


def load_facts(
    inputs: str | None, output: str | None, skipped: str | None, lacks: str | None = None
) -> FillFacts:
    """Read what `dump_facts` wrote."""
    read = json.loads(inputs) if inputs else None
    return FillFacts(
        {key: _input_from_json(data) for key, data in read.items()} if read is not None else None,
        load_output(output),
        load_skipped(skipped),
        load_lacks(lacks),
    )


def load_output(text: str | None) -> Output | None:
    """Read what a fill wrote."""
    return _output_from_json(json.loads(text)) if text else None


def load_skipped(text: str | None) -> Skipped | None:
    """Read that a slot was skipped."""
    return skipped_from_json(json.loads(text)) if text else None


def load_lacks(text: str | None) -> Lacks:
    """Read what a table was made without."""
    return {
        ModelName(space, name): IntervalSet(
            tuple(Interval(parse_instant(start), parse_instant(end)) for start, end in ranges)
        )
        for space, name, *ranges in (json.loads(text) if text else ())
    }


def _lacks_to_json(lacks: Lacks) -> Json:
    return [
        [name.namespace, name.name, *([iso(one.start), iso(one.end)] for one in ranges)]
        for name, ranges in lacks.items()
    ]


def skipped_to_json(skipped: Skipped) -> Json:
    """Write that a slot was, or is going to be, skipped."""
    return [iso(skipped.since), skipped.seconds, skipped.bytes, skipped.commit]


def skipped_from_json(data: Json) -> Skipped:
    """Read what `skipped_to_json` wrote."""
    since, seconds, size, commit = data
    return Skipped(parse_instant(since), seconds, size, commit)


def _text(value: Json) -> str | None:
    if value is None:
        return None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _input_to_json(state: InputState) -> Json:
    digests = [[_columns_to_json(columns), value] for columns, value in state.digests]
    columns = _columns_to_json(state.columns)
    return [state.snapshot_id, state.read_id, digests, columns, state.schema_id, state.file]


def _input_from_json(data: Json) -> InputState:
    snapshot_id, read_id, digests, columns, schema_id, file = data
    read = tuple((_columns_from_json(columns), value) for columns, value in digests)
    return InputState(snapshot_id, read_id, read, _columns_from_json(columns), schema_id, file)


def _output_to_json(output: Output) -> Json:
    return [
        [_columns_to_json(columns) for columns in output.sets],
        [[iso(t.interval.start), iso(t.interval.end), t.rows, *t.digests] for t in output.tiles],
        output.whole,
        output.same,
        output.against,
    ]


def _output_from_json(data: Json) -> Output:
    sets, tiles, whole, same, against = data
    return Output(
        tuple(_columns_from_json(columns) for columns in sets),
        tuple(
            Tile(Interval(parse_instant(start), parse_instant(end)), rows, tuple(digests))
            for start, end, rows, *digests in tiles
        ),
        whole,
        tuple(same),
        tuple(against),
    )


def _columns_to_json(columns: Columns) -> Json:
    return None if columns is None else list(columns)


def _columns_from_json(data: Json) -> Columns:
    return None if data is None else tuple(data)
