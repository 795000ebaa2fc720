"""Reading column references, and telling the author about those that do not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from vde_dagster.base.suggestions import closest
from vde_dagster.semantics.algebra import Node, Terms
from vde_dagster.semantics.errors import SemanticError
from vde_dagster.semantics.finding import place
from vde_dagster.semantics.names import Ambiguous, NotFound, Scope, Unclear, resolve
from vde_dagster.semantics.spark_functions import ALIASES, WITHOUT_PARENTHESES

if TYPE_CHECKING:
    from vde_dagster.semantics.binder import Binder


def bind_column(binder: Binder, e: exp.Column, scope: Scope) -> Node:
    """The node of a column reference; its type is set on the tree for the annotator."""
    identifiers = e.parts
    if isinstance(identifiers[-1], exp.Star):
        return binder.give_up("a star inside an expression")
    parts = tuple([part.name.lower() for part in identifiers])
    if len(parts) == 1:
        for names in reversed(scope.lambdas):
            if parts[0] in names:
                return names[parts[0]]
    try:
        found = resolve(parts, scope, binder.terms)
    except Ambiguous as error:
        return binder.mistaken(_ambiguous(e, parts, error))
    except NotFound:
        if len(parts) == 1 and parts[0] in WITHOUT_PARENTHESES:
            return binder.terms.make("session", ALIASES.get(parts[0], parts[0]))
        return binder.mistaken(_missing(e, parts, scope))
    except Unclear as error:
        return binder.give_up(str(error))
    if found.fields:
        written = tuple(part.name for part in identifiers[-found.fields :])
        e.type = field_type(found.type, written)
        return struct_fields(binder.terms, found.node, written, found.type)
    if found.type is not None:
        e.type = found.type
    return found.node


def struct_fields(terms: Terms, node: Node, fields: tuple[str, ...], kind: Any) -> Node:
    """Fields of a struct, one in another.

    Spark compares their names without case. Those of a map are keys, and as written; so are all
    where it is not known what has them.
    """
    for name in fields:
        struct = kind is not None and kind.this == exp.DType.STRUCT
        node = terms.make("field", name.lower() if struct else name, node)
        kind = field_type(kind, (name,))
    return node


def field_type(kind: Any, fields: tuple[str, ...]) -> Any:
    """The type of a field of a field … of a struct, or None."""
    for name in fields:
        members = getattr(kind, "expressions", None) or []
        kind = next((m.args.get("kind") for m in members if m.name.lower() == name.lower()), None)
    return kind


def _where(line: int | None, column: int | None) -> str:
    return f" (line {line}, column {column})" if line is not None else ""


def _ambiguous(e: exp.Column, parts: tuple[str, ...], error: Ambiguous) -> SemanticError:
    line, column = place(e)
    what = f"Column '{'.'.join(parts)}' is ambiguous"
    why = f"it may come from {' or '.join(dict.fromkeys(error.tables))}."
    return SemanticError(
        f"{what}{_where(line, column)}: {why}",
        hint=f"Write the table in front, as in {error.tables[0]}.{parts[-1]}.",
        line=line,
        column=column,
        unplaced=f"{what}: {why}",
        word=e.name,
    )


def _missing(e: exp.Column, parts: tuple[str, ...], scope: Scope) -> SemanticError:
    line, column = place(e)
    visible: list[str] = []
    tables: list[str] = []
    outer: Scope | None = scope
    while outer is not None:
        for entry in outer.entries:
            names = [n for n in entry.types if n not in visible]
            if len(parts) > 1 and entry.parts[-1] == parts[0]:
                names = list(entry.types)
                visible = []
            visible += names
            tables.append(".".join(entry.parts))
        outer = outer.parent
    hint = None
    names = [table.split(".")[-1] for table in tables]
    if len(parts) > 1 and parts[0] not in names:
        near = closest(parts[0], names)
        hint = f"Did you mean the table '{near}'?" if near else None
    if hint is None:
        close = closest(parts[-1], visible)
        hint = f"Did you mean '{close}'?" if close else None
    if hint is None and visible:
        shown = ", ".join(visible[:8]) + (", …" if len(visible) > 8 else "")
        hint = f"The columns there are: {shown}."
    read = f" in {', '.join(dict.fromkeys(tables))}" if tables else ""
    what = f"Column '{'.'.join(parts)}' does not exist{read}"
    return SemanticError(
        f"{what}{_where(line, column)}.",
        hint=hint,
        line=line,
        column=column,
        unplaced=f"{what}.",
        word=e.name,
    )
