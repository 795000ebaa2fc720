"""Expanding ``*``, ``t.*`` and their EXCEPT, REPLACE and RENAME."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from vde_dagster.semantics.algebra import Output
from vde_dagster.semantics.binder import Unsupported
from vde_dagster.semantics.inference import infer
from vde_dagster.semantics.names import NamedSource, Scope

if TYPE_CHECKING:
    from vde_dagster.semantics.binder import Binder


def expand(binder: Binder, item: exp.Expr, scope: Scope) -> list[Output]:
    """The columns that a star stands for, in order.

    Raises:
        Unsupported: A table's columns are not known, or the star has a form that is not.
    """
    if isinstance(item, exp.Column):
        qualifier = tuple(part.name.lower() for part in item.parts[:-1])
        star = item.this
        entries = [e for e in scope.entries if e.parts[-len(qualifier) :] == qualifier]
        if len(entries) != 1:
            raise Unsupported(f"{'.'.join(qualifier)}.* names no single table")
        outputs = _all(binder, entries[0])
    elif isinstance(item, exp.Star):
        star = item
        if not scope.entries:
            raise Unsupported("a star without FROM")
        outputs = [
            Output(name, node, kind, _merged_name(scope, name))
            for name, (node, kind) in scope.merged.items()
        ]
        for entry in scope.entries:
            outputs += [o for o in _all(binder, entry) if o.name not in entry.hidden]
    else:
        raise Unsupported("a struct star")
    return _changed(binder, star, outputs, scope)


def _merged_name(scope: Scope, name: str) -> str | None:
    return next((e.written.get(name) for e in scope.entries if e.has(name)), None)


def _all(binder: Binder, entry: NamedSource) -> list[Output]:
    if entry.open:
        raise Unsupported(f"the columns of {'.'.join(entry.parts)} are not known")
    if entry.repeated:
        raise Unsupported(f"{'.'.join(entry.parts)} has several columns of one name")
    return [
        Output(n, entry.get(n, binder.terms), entry.types[n], entry.written.get(n))
        for n in entry.names
    ]


def _changed(binder: Binder, star: Any, outputs: list[Output], scope: Scope) -> list[Output]:
    from vde_dagster.semantics.expressions import bind

    if star.args.get("ilike"):
        raise Unsupported("* ILIKE")
    dropped: set[str] = set()
    for name in star.args.get("except_") or []:
        if isinstance(name, exp.Column) and name.table:
            raise Unsupported("* EXCEPT of a qualified name")
        dropped.add(name.name.lower())
    if dropped:
        outputs = [o for o in outputs if o.name not in dropped]
    for alias in star.args.get("replace") or []:
        node = bind(binder, alias.this, scope)
        kind = infer(alias.this)
        for i, output in enumerate(outputs):
            if output.name == alias.alias.lower():
                outputs[i] = Output(output.name, node, kind, output.written)
    renamed = {a.this.name.lower(): a.alias for a in star.args.get("rename") or []}
    if renamed:
        outputs = [
            Output(renamed[o.name].lower(), o.node, o.type, renamed[o.name])
            if o.name in renamed
            else o
            for o in outputs
        ]
    return outputs
