"""Column lineage, as JSON and as a tree of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vde_dagster.planning.trace_columns import Flow

Place = tuple[str, str | None]


def lineage_json(model: str, column: str | None, flows: Sequence[Flow]) -> dict[str, Any]:
    """Return the documented JSON form."""
    return {
        "model": model,
        "column": column,
        "flows": [
            {
                "model": flow.model,
                "column": flow.column,
                "from_model": flow.parent,
                "from_column": flow.source,
                "how": flow.how,
            }
            for flow in flows
        ],
    }


def lineage_lines(
    model: str, columns: Sequence[str | None], flows: Sequence[Flow], *, down: bool
) -> Iterator[str]:
    """Yield a tree for each column; what was shown before is named and not followed again."""
    following: dict[Place, list[tuple[Place, str]]] = {}
    for flow in flows:
        upper: Place = (flow.parent, flow.source)
        lower: Place = (flow.model, flow.column)
        start, end = (upper, lower) if down else (lower, upper)
        key = (start[0], start[1].lower() if start[1] else None)
        following.setdefault(key, []).append((end, flow.how))
    shown: set[Place] = set()
    for column in columns:
        yield _text((model, column))
        yield from _below((model, column), following, shown, "")


def _below(
    place: Place,
    following: dict[Place, list[tuple[Place, str]]],
    shown: set[Place],
    indent: str,
) -> Iterator[str]:
    key = (place[0], place[1].lower() if place[1] else None)
    shown.add(key)
    ends = following.get(key, [])
    for index, (end, how) in enumerate(ends):
        last = index == len(ends) - 1
        own = (end[0], end[1].lower() if end[1] else None)
        again = own in shown and own in following
        yield f"{indent}{'└─' if last else '├─'} {_text(end)}  {how}{' …' if again else ''}"
        if not again:
            yield from _below(end, following, shown, indent + ("   " if last else "│  "))


def _text(place: Place) -> str:
    return f"{place[0]}.{place[1]}" if place[1] is not None else f"{place[0]} (its rows)"
