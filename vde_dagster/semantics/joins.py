"""The columns that USING and NATURAL joins compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from vde_dagster.semantics.binder import Unsupported

if TYPE_CHECKING:
    from vde_dagster.semantics.relations import Sources


def using_columns(e: exp.Join, left: Sources, right: Sources) -> list[str] | None:
    """The column names in a USING, those that a NATURAL join finds, or None.

    Raises:
        Unsupported: A NATURAL join of tables whose columns are not known.
    """
    using = e.args.get("using")
    if using:
        return [identifier.name.lower() for identifier in using]
    if e.method.upper() != "NATURAL":
        return None
    if any(entry.open for entry in left.entries + right.entries):
        raise Unsupported("NATURAL JOIN of tables whose columns are not known")
    there = {name for entry in right.entries for name in entry.names}
    return list(dict.fromkeys(n for entry in left.entries for n in entry.names if n in there))
