"""`changes('sales.orders', 40, 41)` in a query: a table function that stands for a subquery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName, quote
from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.planning.environment import Environment

_FUNCTION = "changes"
_SCHEMA = "vde_changes"
"""Calls become tables of this schema, so that the rules of queries and names hold for them."""


def expand_changes(
    warehouse: Warehouse, version: Environment, sql: str
) -> tuple[str, dict[ModelName, str]]:
    """Replace calls of `changes` by names of tables.

    Args:
        warehouse: The project's warehouse.
        version: What is queried: whose changes, and up to which version where none is said.
        sql: The query.

    Returns:
        The query, and the Spark SQL that each of the names stands for.

    Raises:
        UsageError: A call has other arguments than a model and one or two versions, or what they
            name is not there.
    """
    if _FUNCTION not in sql.lower():
        return sql, {}
    from sqlglot.errors import SqlglotError

    from vde_dagster.execution.changes.between import changes_between
    from vde_dagster.execution.changes.by_version import changes_by_version
    from vde_dagster.planning.changes.query import spelled_apart
    from vde_dagster.sql.dialects import untranslated

    try:
        tokens = untranslated("spark").tokenize(sql)
    except SqlglotError:
        return sql, {}  # Whoever reads the query says what is wrong with it.
    found: dict[ModelName, str] = {}
    logs: set[int] = set()
    parts, done, i = [], 0, 0
    while i < len(tokens):
        end = _call(tokens, i)
        if end is None:
            i += 1
            continue
        model, since, until, each = _arguments(tokens[i + 2 : end], sql)
        name = ModelName.parse(model, warehouse.settings.default_namespace)
        ask = changes_by_version if each else changes_between
        changes = ask(warehouse, version.name, name, since, until or version.version)
        table = ModelName(_SCHEMA, f"{name.name}_{len(found)}")
        try:
            found[table] = f"({spelled_apart(changes.query, logs)})"
        except ValueError as error:
            raise UsageError(str(error), hint="ask for fewer versions, or in two queries") from None
        parts += [sql[done : tokens[i].start], f"{quote(table.namespace)}.{quote(table.name)}"]
        done, i = tokens[end].end + 1, end + 1
    return "".join([*parts, sql[done:]]), found


def _call(tokens: list[Any], at: int) -> int | None:
    """Return the place of the bracket that closes a call of `changes` with a text in it."""
    from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

    if tokens[at].text.lower() != _FUNCTION or len(tokens) < at + 3:
        return None
    if (at and tokens[at - 1].text == ".") or tokens[at + 1].text != "(":
        return None
    if tokens[at + 2].token_type != TokenType.STRING:
        return None
    closing = (i for i in range(at + 3, len(tokens)) if tokens[i].text in ("(", ")"))
    end = next(closing, None)
    return end if end is not None and tokens[end].text == ")" else None


def _arguments(tokens: list[Any], sql: str) -> tuple[str, int, int | None, bool]:
    """Read a model, one or two versions, and whether each version is told for itself."""
    texts = [token.text.lower() for token in tokens]
    each = texts[-4:-1] == [",", "each", "=>"] and texts[-1] in ("true", "false")
    if each:
        texts = texts[:-4]
    commas, numbers = texts[1::2], texts[2::2]
    given = len(texts) % 2 == 1 and 1 <= len(numbers) <= 2 and set(commas) == {","}
    if not given or not all(text.isdecimal() and len(text) < 10 for text in numbers):
        written = sql[tokens[0].start : tokens[-1].end + 1]
        raise UsageError(
            f"changes({written}) does not say a model and one or two versions",
            hint="write changes('sales.orders', 40, 41), or without the 41 for all since then; "
            "and each => true behind that for version by version",
        )
    until = int(numbers[1]) if len(numbers) == 2 else None
    return tokens[0].text, int(numbers[0]), until, each and tokens[-1].text.lower() == "true"
