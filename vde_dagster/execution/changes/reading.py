"""Reading of changed rows, and expansion of `changes(…)` in queries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from vde_dagster.base.names import ModelName, current_user, quote
from vde_dagster.errors import UsageError
from vde_dagster.execution.changes.between import changes_between, changes_by_version
from vde_dagster.execution.changes.compare_versions import ModelChanges
from vde_dagster.planning.changes.query import vary_changelog_names
from vde_dagster.planning.environments.environment import Environment, environment_name
from vde_dagster.sql.trees import plain_dialect

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Unpack

    from vde_dagster.execution.handles import Handles


Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True)
class FoundChanges(Generic[Rows]):
    """The changed rows that were read, as tuples or as an Arrow table.

    Args:
        changes: Versions and method of the comparison.
        rows: The changes, in the order of the key if there is one.
        more: Whether there are more rows than the limit.
        cursor: The consumer's cursor, if one was used.
    """

    changes: ModelChanges
    rows: Rows
    more: bool
    cursor: str | None


class Options(TypedDict, total=False):
    """Options for reading changes.

    Args:
        since: The caller's version; 0 for none, which returns all rows as insertions.
        until: The version to reach; the current version by default.
        cursor: Name of a consumer's cursor, instead of `since`. `acknowledge` moves the cursor.
        each: Whether to return each version's changes (see `_change_ordinal`), not net changes.
    """

    since: int | None
    until: int | None
    cursor: str | None
    each: bool


@dataclass(frozen=True, slots=True)
class Changes:
    """Reads the changed rows of published models between two versions of an environment."""

    handles: Handles

    def read(
        self, environment: str, model: str, *, limit: int | None = None, **asked: Unpack[Options]
    ) -> FoundChanges[tuple[tuple[Any, ...], ...]]:
        """Read the changed rows of a published model as tuples.

        Raises:
            UsageError: The environment, model or version does not exist, or the target version's
                data is gone.
        """
        changes, engine = self.between(environment, model, **asked), self.handles.engine
        rows: Sequence[tuple[Any, ...]] = ()
        if changes.method == "resync":
            marks = ("resync", 0, None, changes.until, changes.publication_id)
            rows = [(*marks, *(None for _ in changes.columns[len(marks) :]))]
        elif changes.method != "nothing":
            rows = engine().query(
                _ordered_query(changes), limit + 1 if limit is not None else None
            )[1]
        more = limit is not None and len(rows) > limit
        rows = tuple(rows[:limit] if more else rows)
        return FoundChanges(changes, rows, more, asked.get("cursor"))

    def read_arrow(
        self, environment: str, model: str, *, limit: int | None = None, **asked: Unpack[Options]
    ) -> FoundChanges[pa.Table]:
        """Read the changed rows of a published model as an Arrow table. Raises like `read`."""
        changes, engine = self.between(environment, model, **asked), self.handles.engine
        # Also without changes: only the engine knows the Arrow types.
        table = engine().query_arrow(
            _ordered_query(changes), limit + 1 if limit is not None else None
        )
        more = limit is not None and table.num_rows > limit
        rows = table.slice(0, limit) if more else table
        return FoundChanges(changes, rows, more, asked.get("cursor"))

    def between(
        self,
        environment: str,
        model: str,
        since: int | None = None,
        until: int | None = None,
        *,
        cursor: str | None = None,
        each: bool = False,
    ) -> ModelChanges:
        """Build a query for a model's changed rows, for any Spark session with the catalog."""
        where = environment_name(environment)
        name = ModelName.parse(model, self.handles.settings.default_namespace)
        if (since is None) == (cursor is None):
            raise UsageError(
                "the version from which to read changes is missing"
                if since is None
                else "changes are requested both since a version and since a cursor",
                hint="pass either the version that you have, or a cursor's name",
            )
        if cursor is not None:
            _check_cursor(cursor)
            since = self.handles.store.change_cursors.version(where, name, cursor)
        ask = changes_by_version if each else changes_between
        return ask(self.handles, where, name, since or 0, until)

    def acknowledge(self, found: FoundChanges[Any], *, who: str | None = None) -> None:
        """Move the cursor to the last version of `found`, once the consumer has stored the changes.

        Raises:
            UsageError: The changes were read without a cursor, or only in part.
            ConflictError: Another process has moved the cursor.
        """
        if found.cursor is None or found.more:
            raise UsageError(
                "these changes were read without a cursor, or only in part",
                hint="read them with cursor=… and without a limit",
            )
        read = found.changes
        self.move(read.environment, read.model, found.cursor, read.since, read.until, who=who)

    def move(
        self,
        environment: str,
        model: ModelName,
        cursor: str,
        since: int,
        until: int,
        *,
        who: str | None = None,
    ) -> None:
        """Move a consumer's cursor from version `since` to `until`. A second call has no effect."""
        _check_cursor(cursor)
        store = self.handles.store
        store.project.require_own()
        current = store.environments.get(environment)
        if current is None or not 0 < until <= current.version:
            last = current.version if current is not None else 0
            raise UsageError(
                f"environment '{environment}' has no version {until}",
                hint=f"its last version is {last}"
                if last
                else "to list environments, run: vde environments",
            )
        store.change_cursors.move(environment, model, cursor, since, until, who or current_user())

    def forget(self, environment: str, model: ModelName, cursor: str) -> bool:
        """Delete a consumer's cursor, and return whether it existed."""
        _check_cursor(cursor)
        self.handles.store.project.require_own()
        return self.handles.store.change_cursors.forget(environment, model, cursor)


def _ordered_query(changes: ModelChanges) -> str:
    by = ["_change_ordinal"] if changes.steps else []
    by += [quote(name) for name in changes.key]
    by.append("_change_type IN ('insert', 'update_after')")
    return f"SELECT * FROM ({changes.query}) ORDER BY {', '.join(by)}"


_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def _check_cursor(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"'{name}' is not a valid cursor name",
            hint="use up to 64 letters, digits, dots, hyphens and underscores, for example billing",
        )


_FUNCTION = "changes"
_SCHEMA = "vde_changes"
"""Schema in the table names that replace `changes(…)`; `check_query` allows these names."""


def expand_changes(
    handles: Handles, version: Environment, sql: str
) -> tuple[str, dict[ModelName, str]]:
    """Replace calls such as `changes('marts.daily', 40)` in a query with names of tables.

    Args:
        version: The queried version; by default, changes are read up to it.

    Returns:
        The new query, and the query of each table.
    """
    if _FUNCTION not in sql.lower():
        return sql, {}

    try:
        tokens = plain_dialect("spark").tokenize(sql)
    except SqlglotError:
        return sql, {}  # The later check of the query reports the error.
    found: dict[ModelName, str] = {}
    logs: set[int] = set()
    parts, done, i = [], 0, 0
    while i < len(tokens):
        end = _find_closing_bracket(tokens, i)
        if end is None:
            i += 1
            continue
        model, since, until, each = _parse_arguments(tokens[i + 2 : end], sql)
        name = ModelName.parse(model, handles.settings.default_namespace)
        ask = changes_by_version if each else changes_between
        changes = ask(handles, version.name, name, since, until or version.version)
        table = ModelName(_SCHEMA, f"{name.name}_{len(found)}")
        try:
            found[table] = f"({vary_changelog_names(changes.query, logs)})"
        except ValueError as error:
            raise UsageError(str(error), hint="read fewer versions, or use two queries") from None
        parts += [sql[done : tokens[i].start], f"{quote(table.namespace)}.{quote(table.name)}"]
        done, i = tokens[end].end + 1, end + 1
    return "".join([*parts, sql[done:]]), found


def _find_closing_bracket(tokens: list[Any], at: int) -> int | None:
    if tokens[at].text.lower() != _FUNCTION or len(tokens) < at + 3:
        return None
    if (at and tokens[at - 1].text == ".") or tokens[at + 1].text != "(":
        return None
    if tokens[at + 2].token_type != TokenType.STRING:
        return None
    closing = (i for i in range(at + 3, len(tokens)) if tokens[i].text in ("(", ")"))
    end = next(closing, None)
    return end if end is not None and tokens[end].text == ")" else None


def _parse_arguments(tokens: list[Any], sql: str) -> tuple[str, int, int | None, bool]:
    texts = [token.text.lower() for token in tokens]
    each = texts[-4:-1] == [",", "each", "=>"] and texts[-1] in ("true", "false")
    if each:
        texts = texts[:-4]
    commas, numbers = texts[1::2], texts[2::2]
    given = len(texts) % 2 == 1 and 1 <= len(numbers) <= 2 and set(commas) == {","}
    if not given or not all(text.isdecimal() and len(text) < 10 for text in numbers):
        written = sql[tokens[0].start : tokens[-1].end + 1]
        raise UsageError(
            f"changes({written}) requires a model and one or two versions",
            hint="write changes('sales.orders', 40, 41), or omit 41 for all changes since 40; add "
            "each => true for the changes of each version",
        )
    until = int(numbers[1]) if len(numbers) == 2 else None
    return tokens[0].text, int(numbers[0]), until, each and tokens[-1].text.lower() == "true"
