"""Parsing of expressions outside of queries, such as keys, and renaming of their columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.sql.edits import Edit, apply_edits
from vde_dagster.sql.other_dialects import SPARKS, Unwritable
from vde_dagster.sql.scanner import SourceText, find_too_deep

if TYPE_CHECKING:
    from sqlglot import exp

_SELECT = "SELECT "

Mention = tuple[str, ...]
"""The parts of a column's name: `("t", "a")` for `t.a`."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A Spark SQL expression over columns.

    Args:
        mentions: Each column name in the expression: its parts, and the (start, end) of each part.
    """

    text: str
    tree: exp.Expr
    mentions: tuple[tuple[Mention, tuple[tuple[int, int], ...]], ...]

    @property
    def functions(self) -> tuple[str, ...]:
        """The lower-case names of the functions that the expression calls."""
        from sqlglot import exp

        from vde_dagster.sql.reading import call_name

        return tuple(call_name(call) for call in self.tree.find_all(exp.Anonymous))

    @property
    def columns(self) -> tuple[str, ...]:
        """The column names in the expression, in the order of their first mention.

        Raises:
            ValueError: A column is qualified with a table.
        """
        if any(len(parts) > 1 for parts, _ in self.mentions):
            raise ValueError("columns must not be qualified with a table")
        return tuple(dict.fromkeys(parts[0] for parts, _ in self.mentions))

    def renamed(self, columns: Mapping[str, str]) -> str:
        """Return the text with renamed columns. `columns` maps lower-case to new names."""
        edits = [
            Edit(*places[0], columns[parts[0].lower()])
            for parts, places in self.mentions
            if parts[0].lower() in columns
        ]
        return apply_edits(self.text, edits)

    def renamed_sides(self, sides: Mapping[str, Mapping[str, str]]) -> str:
        """Return the text with renamed columns. `sides` has new names by table and column."""
        edits = []
        for parts, places in self.mentions:
            columns = sides.get(parts[0].lower(), {})
            if len(parts) > 1 and parts[1].lower() in columns:
                edits.append(Edit(*places[1], columns[parts[1].lower()]))
        return apply_edits(self.text, edits)


def read_expression(text: str) -> Expression:
    """Parse a Spark SQL expression, and find its columns.

    Raises:
        ValueError: The text is not a supported expression; the message has the reason.
    """
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    from vde_dagster.sql.reading import read_query

    try:
        tree = read_query(_SELECT + text).tree
    except SqlglotError as error:
        raise ValueError(str(error).splitlines()[0]) from error
    shown = getattr(tree, "expressions", [])
    clauses = {name for name, value in tree.args.items() if value}
    if not isinstance(tree, exp.Select) or len(shown) != 1 or clauses != {"expressions"}:
        raise ValueError("it is not a single expression")
    (one,) = shown
    if isinstance(one, exp.Alias) or one.find(exp.Query, exp.Star, exp.Window):
        raise ValueError("it contains an alias, a star, a window or a query")
    mentions = []
    for column in one.find_all(exp.Column):
        parts = column.parts
        bare = next((part for part in parts if "start" not in part.meta), None)
        if bare is not None:  # `source.true`: a word that SQLGlot takes for a value.
            word = bare.sql("spark").lower()
            raise ValueError(f"'{word}' is not a name; quote a column's name with backticks")
        places = tuple(
            (part.meta["start"] - len(_SELECT), part.meta["end"] + 1 - len(_SELECT))
            for part in parts
        )
        mentions.append((tuple(part.name for part in parts), places))
    return Expression(text, one, tuple(mentions))


def in_spark(
    text: str, dialect: str, trusted: frozenset[str] = frozenset(), *, is_partition: bool = False
) -> str:
    """Translate an expression from another dialect to Spark SQL.

    Args:
        trusted: Functions of the dialect that are assumed to have the same result on Spark.
        is_partition: Whether the text is a partition field: a column or an Iceberg transform.

    Raises:
        ValueError: The text cannot be parsed or translated; the message has the reason.
    """
    if is_partition:
        return _partition_in_spark(text, dialect, trusted)
    if dialect == "spark":
        return text
    from sqlglot.errors import SqlglotError

    from vde_dagster.sql.other_dialects.translate import write_spark_sql
    from vde_dagster.sql.reading import parse_plain

    try:
        return write_spark_sql(parse_plain(text, dialect), dialect, trusted)
    except SqlglotError as error:
        raise ValueError(str(error).splitlines()[0]) from error
    except Unwritable as problem:
        raise ValueError(f"it cannot be written in Spark SQL: {problem}") from problem


def _partition_in_spark(text: str, dialect: str, trusted: frozenset[str]) -> str:
    """Translate a partition field from another dialect: a column or an Iceberg transform.

    A truncated date becomes a transform: `date_trunc('month', d)` -> `months(d)`.
    """
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    from vde_dagster.sql.reading import parse_plain

    if dialect in SPARKS:
        return text
    call = _CALL.fullmatch(text.strip())
    if call is None:
        return in_spark(text, dialect, trusted)
    name, arguments = call[1].lower(), call[2].split(",")
    if name in TRANSFORMS:
        if (
            name in _DATE_PARTS
            and dialect not in _ICEBERG_DIALECTS
            and trusted.isdisjoint({name, "*"})
        ):
            raise ValueError(
                f"{name}() of {dialect} returns a part of a date, unlike Iceberg's {name}s(): "
                f"write {name}s(…)"
            )
        return f"{name}({', '.join(in_spark(one, dialect, trusted) for one in arguments)})"
    try:
        tree = parse_plain(text, dialect)
    except SqlglotError as error:
        raise ValueError(str(error).splitlines()[0]) from error
    unit = tree.args.get("unit")
    is_cut = isinstance(tree, exp.DateTrunc | exp.TimestampTrunc | exp.DatetimeTrunc)
    column = tree.this if is_cut and not tree.args.get("zone") else None
    if (
        unit is not None
        and f"{unit.name.lower()}s" in TRANSFORMS
        and isinstance(column, exp.Column)
    ):
        return f"{unit.name.lower()}s({column.sql('spark')})"
    raise ValueError(f"{name}() is not a transform of Iceberg")


TRANSFORMS = (
    *("year", "years", "month", "months", "day", "days", "date", "hour", "hours", "date_hour"),
    *("bucket", "truncate"),
)
"""Names of Iceberg's partition transforms."""
_CALL = re.compile(r"(\w+)\s*\((.*)\)", re.DOTALL)
_ICEBERG_DIALECTS = frozenset({"trino", "athena"})
"""Dialects whose partition transforms are the same as Iceberg's."""
_DATE_PARTS = frozenset({"month", "day", "hour"})
"""Transforms that are functions of other dialects with another meaning."""


def add_brackets(text: str, dialect: str) -> str:
    """Put brackets around an SQL expression if it is an operator with operands."""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    from vde_dagster.sql.reading import parse_plain

    if (
        "@" in text
        or text.isidentifier()
        or find_too_deep(SourceText(Path("macro"), text)) is not None
    ):
        return text  # What is too deep is refused with the place of the call.
    try:
        tree = parse_plain(text, dialect=dialect)
    except SqlglotError:  # not an expression of its own: a clause, a list, part of a statement
        return text
    loose = exp.Binary | exp.Not | exp.Neg | exp.Between | exp.In
    if isinstance(tree, loose) and not isinstance(tree, exp.Paren | exp.Dot | exp.Func):
        return f"({text})"
    return f"({text})" if isinstance(tree, exp.Connector) else text
