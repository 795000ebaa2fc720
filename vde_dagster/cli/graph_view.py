"""The graph of models and column lineage, as JSON, as trees of text, and for Mermaid."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.planning.snapshots.column_lineage import Flow
from vde_dagster.project.dag import Models, children, parents


def dag_json(models: Models, among: Collection[ModelName]) -> dict[str, Any]:
    """Return the documented JSON form: models in topological order, with their neighbours."""
    below = children(models)
    return {
        "models": [
            {
                "name": str(name),
                "kind": model.kind.name,
                "parents": [str(parent) for parent in parents(models, name)],
                "children": [str(child) for child in below[name]],
            }
            for name, model in models.items()
            if name in among
        ]
    }


def dag_lines(models: Models, among: Collection[ModelName]) -> Iterator[str]:
    """Yield a tree for each model that reads none of the others, with its readers below it.

    A model that stands elsewhere in the trees already has its readers there, and `…` here.
    """
    below = {
        name: [child for child in found if child in among]
        for name, found in children(models).items()
    }
    tops = [
        name
        for name in models
        if name in among and not any(parent in among for parent in parents(models, name))
    ]
    shown: set[ModelName] = set()
    for top in tops:
        yield f"{top}  {models[top].kind.name}"
        # A stack, as a chain of models may be longer than Python's.
        stack = [(iter(enumerate(below[top], 1)), len(below[top]), "")]
        shown.add(top)
        while stack:
            rest, count, indent = stack[-1]
            found = next(rest, None)
            if found is None:
                stack.pop()
                continue
            index, child = found
            again = child in shown and bool(below[child])
            sign, more = ("└─ ", "   ") if index == count else ("├─ ", "│  ")
            yield f"{indent}{sign}{child}  {models[child].kind.name}{' …' if again else ''}"
            if not again:
                shown.add(child)
                own = below[child]
                stack.append((iter(enumerate(own, 1)), len(own), indent + more))


def dag_mermaid(models: Models, among: Collection[ModelName]) -> Iterator[str]:
    """Yield the lines of a Mermaid flowchart."""
    yield "flowchart LR"
    ids = {name: f"m{index}" for index, name in enumerate(models) if name in among}
    for name, own in ids.items():
        yield f'  {own}["{name}"]'
    for name, own in ids.items():
        for parent in parents(models, name):
            if parent in ids:
                yield f"  {ids[parent]} --> {own}"


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
