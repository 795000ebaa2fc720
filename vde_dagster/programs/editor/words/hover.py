"""Hover: facts about models, columns and header properties, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from vde_dagster.base.texts import listed
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.programs.editor.reading import Reading, Span, Symbol
from vde_dagster.programs.editor.words.completion import header_before, read_tokens
from vde_dagster.programs.editor.words.symbols import Symbols
from vde_dagster.project.dag import children
from vde_dagster.project.model import Model
from vde_dagster.project.properties.model_properties import model_schema
from vde_dagster.semantics.versions.lineage import EVERY_COLUMN

MOST_NAMES = 12
_WORD = re.compile(r"[^\W\d]\w*")


def hover(symbols: Symbols, path: str, offset: int) -> tuple[Span, str] | None:
    """Return the span of the word at an offset, with facts about the word in Markdown, or None."""
    for mention in symbols.mentions_at(path, offset):
        facts = "\n\n".join(_symbol_facts(symbols.reading, mention.symbol))
        if facts:
            return mention.span, facts
    return _header_hover(symbols.reading, path, offset)


def _header_hover(reading: Reading, path: str, offset: int) -> tuple[Span, str] | None:
    text = reading.text(path)
    word = next((m for m in _WORD.finditer(text) if m.start() <= offset <= m.end()), None)
    if word is None or not path.endswith(".sql"):
        return None
    header = header_before(read_tokens(text[: word.end()]))
    if header is None or len(header) < 2:
        return None
    depth = sum({"(": 1, ")": -1}.get(token.text, 0) for token in header)
    name, before = word[0].lower(), header[-2].text
    schema = model_schema()["properties"]
    kinds = {one["properties"]["name"]["const"]: one for one in schema["kind"]["anyOf"][1:]}
    described: dict[str, Any] | None = None
    if depth == 1 and before in "(,":
        described = schema.get(name)
    elif depth == 1 and before.lower() == "kind" and word[0].upper() in kinds:
        described = {"description": kinds[word[0].upper()]["description"]}
    elif depth == 2 and before in "(,":
        chosen = [kinds[one.text.upper()] for one in header if one.text.upper() in kinds]
        own = chosen[-1] if chosen else {"properties": {}}
        described = own["properties"].get(name)
        if described is not None and name in own["required"]:
            described = {**described, "needed": True}
    if described is None:
        return None
    return Span(path, *word.span()), "\n\n".join(_property_facts(word[0], described))


def _property_facts(name: str, described: Mapping[str, Any]) -> Iterator[str]:
    yield f"**{name}** {'needed' if described.get('needed') else ''}".rstrip()
    if "description" in described:
        yield str(described["description"])
    choices = [str(one) for one in described.get("enum", described.get("examples", ()))]
    types = described.get("type", ())
    types = [types] if isinstance(types, str) else types
    if choices:
        yield f"one of {', '.join(f'`{one}`' for one in choices)}"
    elif types:
        yield "`true` or `false`" if types == ["boolean"] else f"type: {' or '.join(types)}"
    if "default" in described:
        yield f"by default `{described['default']}`"


def _symbol_facts(reading: Reading, symbol: Symbol) -> Iterator[str]:
    model = reading.project.models.get(symbol.model)
    snapshot = reading.snapshots.get(symbol.model)
    if symbol.kind == "model" and model is not None:
        yield from _model_facts(reading, model, snapshot)
    elif symbol.kind == "column":
        yield from _column_facts(reading, symbol, snapshot)
    elif symbol.kind == "inner":
        yield f"`{symbol.name}`, a column inside of {symbol.model}"
    elif symbol.kind in ("cte", "alias"):
        what = "a common table expression" if symbol.kind == "cte" else "a table's name"
        yield f"`{symbol.name}`, {what} inside of {symbol.model}"


def _model_facts(reading: Reading, model: Model, snapshot: Snapshot | None) -> Iterator[str]:
    yield f"**{model.name}** {model.kind.name} in `{model.location.path.as_posix()}`"
    if model.description:
        yield model.description
    facts = [f"owner {model.owner}"] if model.owner else []
    facts += [f"cron `{model.cron}`"] if model.kind.by_intervals else []
    facts += [f"tags {', '.join(model.tags)}"] if model.tags else []
    if facts:
        yield ", ".join(facts)
    if snapshot is not None and snapshot.columns:
        rows = (
            f"| `{column.name}` | {column.type or '?'} | {column.description or ''} |"
            for column in snapshot.columns
        )
        yield "\n".join(["| column | type | |", "|---|---|---|", *rows])
    readers = children(reading.project.models).get(model.name, [])
    yield f"read by {listed(readers, MOST_NAMES)}" if readers else "read by no model"


def _column_facts(reading: Reading, symbol: Symbol, snapshot: Snapshot | None) -> Iterator[str]:
    columns = snapshot.columns if snapshot is not None else ()
    column = next((one for one in columns if one.name.lower() == symbol.name), None)
    type_ = column.type if column is not None and column.type else "type not known"
    yield f"**{symbol.model}.{symbol.name}** {type_}"
    if column is not None and column.description:
        yield column.description
    reads = snapshot.reads if snapshot is not None else ()
    own = (read for read in reads if read.output is not None and read.output.lower() == symbol.name)
    if made := sorted({f"`{read.parent}.{read.column}` ({read.how})" for read in own}):
        yield f"computed from {listed(made, MOST_NAMES)}"
    used: set[str] = set()
    for name in children(reading.project.models).get(symbol.model, []):
        reader = reading.snapshots.get(name)
        for read in reader.reads if reader is not None else ():
            names = (symbol.name, EVERY_COLUMN)
            if read.parent == str(symbol.model) and read.column.lower() in names:
                used.add(f"`{name}.{read.output}`" if read.output else f"`{name}` ({read.how})")
    yield f"read by {listed(sorted(used), MOST_NAMES)}" if used else "read by no model"
