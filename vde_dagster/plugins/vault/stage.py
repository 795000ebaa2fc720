"""`@STAGE`: the query of a vault's stage, in which what is derived and hashed is computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vde_dagster.base.names import quote

if TYPE_CHECKING:
    from vde_dagster.project.macros.calls import SQL
    from vde_dagster.project.macros.evaluator import MacroEvaluator


def stage(
    evaluator: MacroEvaluator,
    source: SQL,
    derived: SQL | None = None,
    hashed: SQL | None = None,
    columns: list[str] | None = None,
) -> str:
    """`@STAGE(source, derived := (… AS a), hashed := (@HASH_KEY(a) AS hk))`: a stage's query.

    Args:
        source: A table, or a query in brackets.
        derived: Expressions over the source's columns, each with a name: load date and record
            source, keys as they are to be hashed. One with a column's name is instead of it.
        hashed: Expressions over the source's columns and those.
        columns: The source's columns that the stage has: all of them without it.
    """
    made, hashes = _inside(derived), _inside(hashed)
    new = _aliases(evaluator, "derived", made)
    _aliases(evaluator, "hashed", hashes)
    known = evaluator.columns_to_types(source) if columns is None else columns
    kept = [quote(name) for name in known if name.lower() not in new]
    inner = ", ".join([*kept, *([made] if made else [])])
    if not hashes:
        return f"SELECT {inner} FROM {source}"
    names = ", ".join([*kept, *map(quote, new.values())])
    return f"SELECT {names}, {hashes} FROM (SELECT {inner} FROM {source}) AS stage"


def _inside(text: str | None) -> str:
    """Take the brackets off a list of expressions."""
    text = (text or "").strip()
    return text[1:-1].strip() if text.startswith("(") else text


def _aliases(evaluator: MacroEvaluator, argument: str, text: str) -> dict[str, str]:
    """Return the names of expressions, by name in lower case."""
    from sqlglot import exp

    found: dict[str, str] = {}
    for one in evaluator.parse_one(f"SELECT {text}").expressions if text else ():
        if not isinstance(one, exp.Alias):
            raise evaluator.error(
                f"@STAGE: '{one.sql('spark')}' in '{argument}' has no name",
                f"write {argument} := (expression AS name, …)",
            )
        found[one.alias.lower()] = one.alias
    return found
