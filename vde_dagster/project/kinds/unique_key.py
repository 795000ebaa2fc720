"""INCREMENTAL_BY_UNIQUE_KEY: a table with one row per key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from vde_dagster.base.names import quote
from vde_dagster.errors import ProjectError
from vde_dagster.project.kinds.base import Kind, Property, no_column
from vde_dagster.sql.expressions import Expression, in_spark, read_expression
from vde_dagster.sql.scanner import SourceText, Token, unquote

if TYPE_CHECKING:
    from vde_dagster.project.property_value import Value


SIDES = ("source", "target")
"""Aliases of the new rows and of the table, as in SQLMesh."""
ALL = "*"
"""Placeholder for all columns in an assignment."""
MERGE, DELETE_INSERT = STRATEGIES = ("merge", "delete+insert")
"""dbt's strategies: a MERGE on the key, or a deletion of the new keys followed by an insert."""

Read = TypeVar("Read")
Assignments = tuple[tuple[str, str], ...]
Clause = tuple[str, Assignments]
"""Condition (may be empty), and assignments as (column, expression); none for DELETE."""

_HINT = "write WHEN MATCHED [AND condition] THEN UPDATE SET target.a = source.a, … | DELETE"


def read_keys(value: Value) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read the property `unique_key` as (columns, Spark SQL expressions)."""
    columns: list[str] = []
    expressions: list[str] = []
    for item in value.items():
        if len(item.tokens) == 1 and item.tokens[0].kind != "number":
            columns.append(item.raw.strip('`"'))
            continue
        found = _read_expression(item, item.raw)
        if not found.mentions:
            raise item.error(
                f"unique key '{item.raw}' names no column",
                "write an expression over the model's columns; quote names with backticks",
            )
        expressions.append(found.text)
    if not (columns or expressions):
        raise no_column(value)
    return tuple(columns), tuple(expressions)


def read_when_matched(value: Value) -> tuple[Clause, ...]:
    """Read `WHEN MATCHED [AND condition] THEN UPDATE SET … | DELETE …`, brackets are optional."""
    return _read_inner(value, _read_clauses)


def _read_clauses(inner: Value) -> tuple[Clause, ...]:
    clauses: list[Clause] = []
    starts = [i for i in _positions_outside_case(inner.tokens) if inner.tokens[i].is_word("WHEN")]
    if not starts or starts[0] != 0:
        raise inner.error(f"'{inner.raw}' is not a MERGE clause", _HINT)
    for start, end in zip(starts, [*starts[1:], len(inner.tokens)], strict=True):
        part = list(inner.tokens[start:end])
        if part[-1].text == ",":
            part.pop()
        if clauses and not clauses[-1][0]:
            raise inner.part(part).error(
                "this WHEN MATCHED is never reached, because the previous one has no condition",
                "add AND condition to all but the last",
            )
        clauses.append(_read_clause(inner.part(part)))
    return tuple(clauses)


def read_merge_filter(value: Value) -> str:
    """Read the property `merge_filter`, a condition over `source.x` and `target.x`."""

    def condition(inner: Value) -> str:
        found = _read_sided_expression(inner)
        if not found.mentions:
            raise inner.error(
                f"'{inner.raw}' is not a condition on rows",
                f"write {inner.name} target.day > source.day",
            )
        return found.text

    return _read_inner(value, condition)


def columns_in_clauses(expressions: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns in expressions, without the qualifiers `source` and `target`."""
    found = [
        parts[parts[0].lower() in SIDES and len(parts) > 1]
        for text in expressions
        for parts, _ in read_expression(text).mentions
    ]
    return tuple(dict.fromkeys(found))


def keeps_old_value(column: str, text: str) -> bool:
    """Return whether an assignment sets a column to its own old value, `target.column`."""
    return text.lower() in (f"target.{column}".lower(), f"target.{quote(column)}".lower())


def _read_clause(value: Value) -> Clause:
    tokens = list(value.tokens)
    if len(tokens) < 2 or not tokens[1].is_word("MATCHED"):
        hint = "rows of new keys are always inserted; " + _HINT
        raise value.error(f"'{value.raw}' is not a WHEN MATCHED clause", hint)
    then = next((i for i in _positions_outside_case(tokens) if tokens[i].is_word("THEN")), None)
    if then is None:
        raise value.error(f"THEN is missing in '{value.raw}'", _HINT)
    condition = ""
    if then > 2:
        if not tokens[2].is_word("AND") or then == 3:
            raise value.error(f"'{value.raw}' has no condition after AND", _HINT)
        condition = _read_sided_expression(value.part(tokens[3:then])).text
    return condition, _read_action(value, tokens[then + 1 :])


def _read_action(value: Value, tokens: list[Token]) -> Assignments:
    words = [token.text.upper() for token in tokens]
    if words == ["DELETE"]:
        return ()
    if words[:1] != ["UPDATE"] or len(words) < 2:
        raise value.error(f"'{value.raw}' neither updates nor deletes", _HINT)
    rest = tokens[2:] if words[1] == "SET" else tokens[1:]
    if [token.text for token in rest] == [ALL]:
        return ((ALL, ALL),)
    if words[1] != "SET" or not rest:
        raise value.error(f"'{value.raw}' sets nothing", _HINT)
    out: list[tuple[str, str]] = []
    for item in value.part(rest).split(","):
        at = next((i for i, token in enumerate(item.tokens) if token.text == "="), None)
        name = list(item.tokens[: at or 0])
        if len(name) == 3 and name[0].is_word("TARGET") and name[1].text == ".":
            name = name[2:]
        if at is None or len(name) != 1 or name[0].kind not in ("word", "quoted", "string"):
            raise item.error(f"'{item.raw}' sets no column of the target", "target.a = source.a")
        column = name[0].text.strip('`"')
        if any(column.lower() == other.lower() for other, _ in out):
            raise item.error(f"column '{column}' is set twice in one clause", "set it once")
        out.append((column, _read_sided_expression(item.part(list(item.tokens[at + 1 :]))).text))
    return tuple(out)


def _read_sided_expression(value: Value) -> Expression:
    found = _read_expression(value, value.raw)
    for parts, _ in found.mentions:
        if parts[0].lower() not in SIDES or len(parts) < 2:
            raise value.error(
                f"'{'.'.join(parts)}' in '{value.name}' is ambiguous between source and target",
                f"write source.{parts[-1]} for the new row's column, target.{parts[-1]} for the "
                "table's",
            )
    return found


def _read_expression(value: Value, text: str) -> Expression:
    try:
        return read_expression(in_spark(text, value.dialect, value.trusted))
    except ValueError as error:
        raise value.error(
            f"'{text}' in '{value.name}' is not an expression: {error}",
            "write it as in a SELECT, without an alias",
        ) from error


def _read_inner(value: Value, read: Callable[[Value], Read]) -> Read:
    if len(value.tokens) != 1 or value.tokens[0].kind != "string":
        return read(value.part(value.inner()))
    source = SourceText(value.source.path, unquote(value.tokens[0]))
    try:
        tokens = tuple(Token.split(source))
        return _read_inner(replace(value, source=source, tokens=tokens, start=0), read)
    except ProjectError as error:
        raise value.error(error.message, error.hint) from error


def _positions_outside_case(tokens: Sequence[Token]) -> Iterator[int]:
    depth = cases = 0
    for index, token in enumerate(tokens):
        if token.kind == "punct" and token.text in "([{":
            depth += 1
        elif token.kind == "punct" and token.text in ")]}":
            depth -= 1
        elif token.is_word("CASE"):
            cases += 1
        elif token.is_word("END"):
            cases -= 1
        elif not depth and not cases:
            yield index


@dataclass(frozen=True, slots=True)
class IncrementalByUniqueKey(Kind):
    """A table filled by intervals, where each fill merges its rows into the table by a key.

    Args:
        unique_key: Output columns that identify a row; NULLs are equal, but see `nulls_match`.
        key_expressions: Expressions over output columns, in Spark SQL, that are parts of the key.
        when_matched: Clauses for rows with an existing key. The first clause whose condition is
            true applies. Without clauses, all columns are replaced. In a clause, `*` means all
            columns that the clause does not set. Columns belong to `source` or `target`.
        merge_filter: Additional condition over `source` and `target` for a match, or empty.
        strategy: One of dbt's strategies in `STRATEGIES`, which keep all rows of a key. If it is
            empty, the table keeps one row per key.
        nulls_match: Whether NULL equals NULL, for a model with a strategy.
        refresh: With `changes`, a fill merges only rows whose keys are affected by changed inputs.
    """

    unique_key: tuple[str, ...]
    lookback: int = 0
    batch_size: int | None = None
    key_expressions: tuple[str, ...] = Kind.later(())
    when_matched: tuple[Clause, ...] = Kind.later(())
    merge_filter: str = Kind.later("")
    merge_columns: tuple[str, ...] = Kind.later(())
    disable_restatement: bool = Kind.later(False)
    auto_restatement_cron: str | None = Kind.later(None)
    forward_only: bool = Kind.later(False)
    on_destructive_change: str = Kind.later("error")
    on_additive_change: str = Kind.later("allow")
    strategy: str = Kind.later("")
    nulls_match: bool = Kind.later(False)
    refresh: str = Kind.later("whole")
    name: Literal["INCREMENTAL_BY_UNIQUE_KEY"] = "INCREMENTAL_BY_UNIQUE_KEY"

    summary = "interval by interval; rows are merged on the key"
    by_intervals = True
    restates_whole = True
    changes_in_place = True
    properties = (
        Property(
            "unique_key",
            read_keys,
            {"type": ["string", "array"], "items": {"type": "string"}},
            required=True,
            names_columns=True,
        ),
        Property("when_matched", read_when_matched, {"type": "string"}),
        Property("merge_filter", read_merge_filter, {"type": "string"}),
        Kind.REFRESH,
        Kind.LOOKBACK,
        Kind.BATCH_SIZE,
        *Kind.RESTATEMENT,
        *Kind.IN_PLACE,
    )

    @classmethod
    def from_properties(cls, given: Mapping[str, Any]) -> Kind:
        values = dict(given)
        columns, expressions = values.pop("unique_key")
        clauses: tuple[Clause, ...] = values.get("when_matched", ())
        refused = expressions or clauses or values.get("merge_filter")
        if refused and values.get("refresh") == "changes":
            raise ValueError(
                "'refresh changes' requires columns as the key and cannot be combined with "
                "when_matched or merge_filter, because merging a row again must not change the "
                "table"
            )
        sided = [text for condition, _ in clauses for text in [condition] if text]
        sided += [text for _, sets in clauses for _, text in sets if text != ALL]
        sided += [values["merge_filter"]] if values.get("merge_filter") else []
        named = [column for _, sets in clauses for column, _ in sets if column != ALL]
        named += columns_in_clauses((*expressions, *sided))
        by_name = {name.lower(): name for name in reversed(named)}
        return cls(
            unique_key=columns,
            key_expressions=expressions,
            merge_columns=tuple(sorted(by_name.values())),
            **values,
        )

    @property
    def named_columns(self) -> tuple[str, ...]:
        known = {name.lower() for name in self.unique_key}
        others = (name for name in self.merge_columns if name.lower() not in known)
        return (*self.unique_key, *others)

    @property
    def assignments(self) -> tuple[tuple[str, str], ...]:
        every = (pair for _, assigned in self.when_matched for pair in assigned)
        return tuple((column, text) for column, text in every if column != ALL)

    @property
    def conditions(self) -> tuple[str, ...]:
        every = (*(condition for condition, _ in self.when_matched), self.merge_filter)
        return tuple(text for text in every if text)

    @property
    def key_of_rows(self) -> tuple[str, ...]:
        return () if self.key_expressions or self.strategy else self.unique_key

    def expression_queries(self, table: str) -> Mapping[str, str]:
        found = {}
        if self.key_expressions:
            found["unique_key"] = f"SELECT {', '.join(self.key_expressions)} FROM {table}"
        values = [
            value
            for condition, assigned in self.when_matched
            for value in (condition, *(value for _, value in assigned))
            if value and value != ALL
        ]
        both = f"FROM {table} AS source CROSS JOIN {table} AS target"
        if values:
            found["when_matched"] = f"SELECT {', '.join(values)} {both}"
        if self.merge_filter:
            found["merge_filter"] = f"SELECT {self.merge_filter} {both}"
        return found

    @property
    def fixed(self) -> tuple[str, ...]:
        return (*self.unique_key, *self.key_expressions)

    @property
    def refills(self) -> bool:
        return not any(
            "target." in text.lower()
            for column, text in self.assignments
            if not keeps_old_value(column, text)
        )
