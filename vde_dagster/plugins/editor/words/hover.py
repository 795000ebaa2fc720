"""Hover: what is known of a model or a column, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from vde_dagster.base.texts import listed
from vde_dagster.planning.snapshots.snapshot import OutputColumn, Snapshot
from vde_dagster.plugins.editor.reading import Reading, Span, Symbol
from vde_dagster.plugins.editor.words.symbols import Symbols
from vde_dagster.project.dag import children
from vde_dagster.project.model import Model

MOST_NAMES = 12


def hover(symbols: Symbols, path: str, offset: int) -> tuple[Span, str] | None:
    """Return what is known of what stands at an offset; None where that is nothing."""
    for mention in symbols.at(path, offset):
        said = "\n\n".join(_about(symbols.reading, mention.symbol))
        if said:
            return mention.span, said
    return None


def _about(reading: Reading, symbol: Symbol) -> Iterator[str]:
    model = reading.project.models.get(symbol.model)
    snapshot = reading.snapshots.get(symbol.model)
    if symbol.kind == "model" and model is not None:
        yield from _model(reading, model, snapshot)
    elif symbol.kind == "column":
        yield from _column(reading, symbol, snapshot)
    elif symbol.kind == "inner":
        yield f"`{symbol.name}`, a column inside of {symbol.model}"
    elif symbol.kind in ("cte", "alias"):
        what = "a common table expression" if symbol.kind == "cte" else "a table's name"
        yield f"`{symbol.name}`, {what} inside of {symbol.model}"


def _model(reading: Reading, model: Model, snapshot: Snapshot | None) -> Iterator[str]:
    yield f"**{model.name}** {model.kind.name} in `{model.location.path.as_posix()}`"
    if model.description:
        yield model.description
    facts = [f"owner {model.owner}"] if model.owner else []
    facts += [f"cron `{model.cron}`"] if model.kind.by_intervals else []
    facts += [f"tags {', '.join(model.tags)}"] if model.tags else []
    if facts:
        yield ", ".join(facts)
    if snapshot is not None and snapshot.columns:
        rows = (_row(column) for column in snapshot.columns)
        yield "\n".join(["| column | type | |", "|---|---|---|", *rows])
    readers = children(reading.project.models).get(model.name, [])
    yield f"read by {listed(readers, MOST_NAMES)}" if readers else "read by no model"


def _row(column: OutputColumn) -> str:
    return f"| `{column.name}` | {column.type or '?'} | {column.description or ''} |"


def _column(reading: Reading, symbol: Symbol, snapshot: Snapshot | None) -> Iterator[str]:
    columns = snapshot.columns if snapshot is not None else ()
    column = next((one for one in columns if one.name.lower() == symbol.name), None)
    type_ = column.type if column is not None and column.type else "type not known"
    yield f"**{symbol.model}.{symbol.name}** {type_}"
    if column is not None and column.description:
        yield column.description
    reads = snapshot.reads if snapshot is not None else ()
    own = (read for read in reads if read.output is not None and read.output.lower() == symbol.name)
    if made := sorted({f"`{read.parent}.{read.column}` ({read.how})" for read in own}):
        yield f"made of {listed(made, MOST_NAMES)}"
    used: set[str] = set()
    for name in children(reading.project.models).get(symbol.model, []):
        reader = reading.snapshots.get(name)
        for read in reader.reads if reader is not None else ():
            if read.parent == str(symbol.model) and read.column.lower() == symbol.name:
                used.add(f"`{name}.{read.output}`" if read.output else f"`{name}` ({read.how})")
    yield f"read by {listed(sorted(used), MOST_NAMES)}" if used else "read by no model"
