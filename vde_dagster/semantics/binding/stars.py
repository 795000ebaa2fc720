"""Expansion of ``*``, ``t.*``, a struct's ``s.*``, and EXCEPT."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from vde_dagster.semantics.algebra.nodes import Output
from vde_dagster.semantics.binding.binder import Binder, Unsupported, refuse_other_args
from vde_dagster.semantics.binding.names import (
    Ambiguous,
    NamedSource,
    NotFound,
    Scope,
    UnclearName,
    bind_struct_fields,
    field_type,
    resolve,
)


def expand_star(
    binder: Binder, item: exp.Expr, scope: Scope, *, partial: bool = False
) -> list[Output]:
    """Return the columns that a star includes, in order.

    Args:
        partial: Add tables with unknown columns to the scope's `rest` instead of raising an error.

    Raises:
        Unsupported: A table's columns are unknown, or the star has an unsupported form.
    """
    rest: list[NamedSource] | None = [] if partial else None
    if isinstance(item, exp.Column | exp.Dot):
        names, star = _parts(item)
        qualifier = tuple(name.lower() for name in names)
        entries = [e for e in scope.entries if e.parts[-len(qualifier) :] == qualifier]
        if len(entries) > 1:
            raise Unsupported(f"several tables are called {'.'.join(qualifier)}")
        # A table takes precedence over a column of the same name.
        if entries:
            hidden = list(entries[0].hidden)
            outputs = _all(binder, entries[0], rest)
            outputs.sort(key=lambda o: hidden.index(o.name) if o.name in hidden else len(hidden))
        else:
            outputs = _fields(binder, names, scope)
    elif isinstance(item, exp.Star):
        star = item
        if not scope.entries:
            raise Unsupported("a star without FROM")
        outputs = [
            Output(name, node, kind, _merged_name(scope, name))
            for name, (node, kind) in scope.merged.items()
        ]
        for entry in scope.entries:
            outputs += [o for o in _all(binder, entry, rest) if o.name not in entry.hidden]
    else:
        raise Unsupported("a star of an unknown form")
    if rest:
        scope.rest += rest
        binder.partial = binder.partial or str(unknown_columns_error(rest[0]))
    refuse_other_args(star, {"except_"}, "*")
    left_out = star.args.get("except_") or []
    if any(isinstance(name, exp.Column) and name.table for name in left_out):
        raise Unsupported("* EXCEPT of a qualified name")
    dropped = {name.name.lower() for name in left_out}
    return [o for o in outputs if o.name not in dropped]


def _parts(item: exp.Expr) -> tuple[list[str], Any]:
    if isinstance(item, exp.Column):
        return [part.name for part in item.parts[:-1]], item.this
    names: list[str] = []
    left: exp.Expr = item.this
    while isinstance(left, exp.Dot) and isinstance(left.expression, exp.Identifier):
        names.insert(0, left.expression.name)
        left = left.this
    if not isinstance(left, exp.Column):
        raise Unsupported("the star of an expression")
    return [*(part.name for part in left.parts), *names], item.expression


def _fields(binder: Binder, names: list[str], scope: Scope) -> list[Output]:
    text = ".".join(names)
    try:
        # Names that the same SELECT list gives are not seen.
        found = resolve(
            tuple(name.lower() for name in names), replace(scope, clause="where"), binder.terms
        )
    except (Ambiguous, NotFound, UnclearName):
        raise Unsupported(f"{text}.* refers to no table or struct, or to several") from None
    before = tuple(names[len(names) - found.fields :])
    node = bind_struct_fields(binder, found.node, before, found.type)
    kind = field_type(found.type, before)
    if kind is None or kind.this != exp.DType.STRUCT:
        raise Unsupported(f"the fields of {text} are not known")
    fields = [(f.name, f.args.get("kind")) for f in kind.expressions]
    if len({name.lower() for name, _ in fields}) != len(kind.expressions) or not fields:
        raise Unsupported(f"{text} has several fields of one name")
    return [
        Output(name.lower(), bind_struct_fields(binder, node, (name,), kind), type_, name)
        for name, type_ in fields
    ]


def _merged_name(scope: Scope, name: str) -> str | None:
    return next((e.written.get(name) for e in scope.entries if e.has(name)), None)


def unknown_columns_error(entry: NamedSource) -> Unsupported:
    return Unsupported(f"the columns of {entry.name_in_messages} are not known")


def _all(binder: Binder, entry: NamedSource, rest: list[NamedSource] | None) -> list[Output]:
    if entry.open:
        if rest is None:
            raise unknown_columns_error(entry)
        rest.append(entry)
    if entry.repeated:
        raise Unsupported(f"{entry.name_in_messages} has several columns of one name")
    return [
        Output(n, entry.get(n, binder.terms), entry.types[n], entry.written.get(n))
        for n in entry.names
    ]
