"""Reading changes: their rows, and `changes(…)` in a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName, quote
from vde_dagster.errors import UsageError
from vde_dagster.execution.changes.between import changes_between, changes_by_version
from vde_dagster.execution.changes.compare_versions import ModelChanges
from vde_dagster.execution.changes.followers import check_cursor

if TYPE_CHECKING:
    import pyarrow as pa

    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.planning.environments.environment import Environment


@dataclass(frozen=True, slots=True)
class FoundChanges:
    """Changes that were read.

    Args:
        changes: From where to where, and how they were found.
        rows: The changes, in the order of the key where there is one.
        more: Whether there are more than were asked for.
        cursor: The cursor that they were read by, or None.
    """

    changes: ModelChanges
    rows: tuple[tuple[Any, ...], ...]
    more: bool = False
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class ArrowChanges:
    """Changes that were read into Arrow.

    Args:
        changes: From where to where, and how they were found.
        table: The changes, in the order of the key where there is one.
        more: Whether there are more than were asked for.
        cursor: The cursor that they were read by, or None.
    """

    changes: ModelChanges
    table: pa.Table
    more: bool = False
    cursor: str | None = None


def read_arrow_changes(
    warehouse: Warehouse, changes: ModelChanges, cursor: str | None, limit: int | None
) -> ArrowChanges:
    """Read changes into Arrow; see `Workspace.changes_arrow`."""
    # Also where nothing changed: the engine knows what Arrow's types are.
    wanted = limit + 1 if limit is not None else None
    table = warehouse.engine().query_arrow(ordered(changes), wanted)
    more = limit is not None and table.num_rows > limit
    return ArrowChanges(changes, table.slice(0, limit) if more else table, more, cursor)


def read_changes(
    warehouse: Warehouse, changes: ModelChanges, cursor: str | None, limit: int | None
) -> FoundChanges:
    """Read changes; see `Workspace.changes`."""
    rows: Sequence[tuple[Any, ...]] = ()
    if changes.method == "resync":
        marks = ("resync", 0, None, changes.until, changes.publication_id)
        rows = [(*marks, *(None for _ in changes.columns[len(marks) :]))]
    elif changes.method != "nothing":
        wanted = limit + 1 if limit is not None else None
        rows = warehouse.engine().query(ordered(changes), wanted)[1]
    more = limit is not None and len(rows) > limit
    return FoundChanges(changes, tuple(rows[:limit] if more else rows), more, cursor)


def plan_changes(
    warehouse: Warehouse,
    environment: str,
    model: ModelName,
    since: int | None,
    until: int | None,
    cursor: str | None,
    *,
    each: bool,
) -> ModelChanges:
    """Find out how the changes are read that somebody asks for; see `Workspace.changes`."""
    if (since is None) == (cursor is None):
        raise UsageError(
            "the version from which changes are wanted is missing"
            if since is None
            else "the start of the changes is given twice, by a version and by a cursor",
            hint="give either the version that you have, or a cursor's name",
        )
    if cursor is not None:
        check_cursor(cursor)
        since = warehouse.store.change_cursors.version(environment, model, cursor)
    ask = changes_by_version if each else changes_between
    return ask(warehouse, environment, model, since or 0, until)


def ordered(changes: ModelChanges) -> str:
    """Order changes by step and key, and what goes before what comes."""
    by = ["_change_ordinal"] if changes.steps else []
    by += [quote(name) for name in changes.key]
    by.append("_change_type IN ('insert', 'update_after')")
    return f"SELECT * FROM ({changes.query}) ORDER BY {', '.join(by)}"


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

    Returns:
        The query, and the Spark SQL that each of the names stands for.

    Raises:
        UsageError: A call has other arguments than a model and one or two versions, or what they
            name is not there.
    """
    if _FUNCTION not in sql.lower():
        return sql, {}
    from sqlglot.errors import SqlglotError

    from vde_dagster.execution.changes.between import changes_between, changes_by_version
    from vde_dagster.planning.changes.query import spelled_apart
    from vde_dagster.sql.trees import untranslated

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
            f"changes({written}) needs a model and one or two versions",
            hint="write changes('sales.orders', 40, 41), or without the 41 for all since then; "
            "and each => true behind that for version by version",
        )
    until = int(numbers[1]) if len(numbers) == 2 else None
    return tokens[0].text, int(numbers[0]), until, each and tokens[-1].text.lower() == "true"
