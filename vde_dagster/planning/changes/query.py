"""Spark SQL that compares the rows of two Iceberg snapshots, and returns rows that differ."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vde_dagster.base.names import quote, string_literal
from vde_dagster.planning.changes.columns import ColumnPair, ViewColumn, is_same_type_text
from vde_dagster.planning.changes.comparison import CommitSpan, LineageComparison

Change = Literal["insert", "delete", "update_before", "update_after", "resync"]

CHANGE_COLUMNS = (
    ("_change_type", "STRING"),
    ("_change_ordinal", "INT"),
    ("_commit_snapshot_id", "BIGINT"),
    ("_version", "INT"),
    ("_publication_id", "STRING"),
)
"""Names and types of the columns that precede a view's own columns."""


@dataclass(frozen=True, slots=True)
class VersionStep:
    """The step from one published version of a view to the next.

    Args:
        ordinal: Number of the step, from 0.
        commit: The Iceberg snapshot that the later version shows; None if the model has no table.
        publication_id: The later version's publication; None after its deletion from the state.
    """

    ordinal: int
    commit: int | None
    version: int
    publication_id: str | None

    def write_change_columns(self, change: str) -> str:
        """Write SQL for the columns that describe a change of a row.

        Args:
            change: SQL for the first of these columns, such as `'insert'`.
        """
        values = (
            change,
            str(self.ordinal),
            "NULL" if self.commit is None else str(self.commit),
            str(self.version),
            "NULL" if self.publication_id is None else string_literal(self.publication_id),
        )
        return ", ".join(
            f"CAST({value} AS {type_}) AS {quote(name)}"
            for value, (name, type_) in zip(values, CHANGE_COLUMNS, strict=True)
        )


_LOG = re.compile(r"`changes`( WITH \(`(?:start|end)-snapshot-id` = [^)]*\))", re.IGNORECASE)
LOGS = 1 << len("changes")
"""Maximum number of Iceberg changelogs that one query can read."""


def vary_changelog_names(query: str, used: set[int] | None = None) -> str:
    """Spell each changelog table in a query with different upper and lower case letters.

    Otherwise, Spark before SPARK-58330 reads every changelog table with the options of the first.

    Args:
        used: Numbers of spellings that are taken; receives the numbers of this query's spellings.

    Raises:
        ValueError: The query reads more than `LOGS` changelogs.

    >>> log = "t.`changes` WITH (`end-snapshot-id` = '7')"
    >>> one, two = vary_changelog_names(f"{log} JOIN {log}").split(" JOIN ")
    >>> one == two, one.lower() == two.lower()
    (False, True)
    """
    # If a query names a table twice, Spark before SPARK-58330 uses the options of the first
    # occurrence for both, so the second changelog would return the first's commits. Iceberg ignores
    # case.
    taken = set() if used is None else used

    def spelled(match: re.Match[str]) -> str:
        # Derived from the options, so that two queries joined later are likely to differ, too.
        number = zlib.crc32(match[1].encode()) % LOGS
        if len(taken) >= LOGS:
            raise ValueError(f"a query reads more than {LOGS} changelogs")
        while number in taken:
            number = (number + 1) % LOGS
        taken.add(number)
        letters = (
            letter.upper() if number >> place & 1 else letter
            for place, letter in enumerate("changes")
        )
        return f"`{''.join(letters)}`{match[1]}"

    return _LOG.sub(spelled, query)


def is_comparable(type_: str) -> bool:
    """Return whether Spark can compare rows by a column of this type."""
    # A variant is compared as text; a type that contains a variant cannot be compared.
    lowered = type_.lower()
    return "variant" not in lowered or lowered == "variant"


def weigh_versions(before: str | None, after: str | None, pairs: Sequence[ColumnPair]) -> str:
    """Write a query of the earlier version's rows (weight -1) and the later one's (weight 1)."""
    parts = []
    if before is not None:
        listed = ", ".join(f"{_before(pair)} AS c{i}" for i, pair in enumerate(pairs))
        parts.append(f"SELECT -1 AS w, {listed} FROM ({before}) AS b")
    if after is not None:
        listed = ", ".join(f"{quote(pair.after.name)} AS c{i}" for i, pair in enumerate(pairs))
        parts.append(f"SELECT 1 AS w, {listed} FROM ({after}) AS a")
    return " UNION ALL ".join(parts)


def weigh_commits(
    legs: Iterable[CommitSpan], table: str, columns: Sequence[ViewColumn], types: Mapping[str, str]
) -> str:
    """Write the query of the rows that commits added (weight 1) or removed (weight -1).

    Args:
        columns: The later version's columns.
        types: Spark SQL types of the current table's columns.
    """
    # Rows that a commit only copied are included, because their two weights cancel out.
    parts = []
    for leg in legs:
        options = [("start-snapshot-id", leg.since)] if leg.since is not None else []
        options.append(("end-snapshot-id", leg.until))
        with_ = ", ".join(f"`{name}` = '{value}'" for name, value in options)
        added, removed = (1, -1) if leg.forwards else (-1, 1)
        weight = f"CASE WHEN _change_type = 'INSERT' THEN {added} ELSE {removed} END"
        parts.append(
            f"SELECT {weight} AS w, {_places(columns, types)} FROM {table}.`changes` WITH ({with_})"
        )
    return " UNION ALL ".join(parts)


def weigh_lineage(
    way: LineageComparison,
    table: str,
    pairs: Sequence[ColumnPair],
    older_types: Mapping[str, str],
    newer_types: Mapping[str, str],
) -> str:
    """Write a query of the rows written since an Iceberg snapshot, and of the rows they replace.

    Args:
        pairs: Columns that read the same physical column in both versions.
        older_types, newer_types: Spark SQL types by column, in each Iceberg snapshot's schema.
    """
    columns = [pair.after for pair in pairs]
    old, new = _places(columns, older_types, "o"), _places(columns, newer_types, "n")
    weights = (-1, 1) if way.forwards else (1, -1)
    written = "_last_updated_sequence_number"
    kept = (
        f"SELECT _row_id AS i FROM {table} VERSION AS OF {way.newer} "
        f"WHERE {written} <= {way.sequence}"
    )
    return (
        f"SELECT {weights[0]} AS w, {old} FROM (SELECT *, _row_id AS vde_row "
        f"FROM {table} VERSION AS OF {way.older}) AS o "
        f"LEFT ANTI JOIN ({kept}) AS k ON o.vde_row = k.i "
        f"UNION ALL SELECT {weights[1]} AS w, {new} FROM (SELECT * "
        f"FROM {table} VERSION AS OF {way.newer} WHERE {written} > {way.sequence}) AS n"
    )


def changes_query(
    weighed: str, columns: Sequence[ViewColumn], key: Sequence[str], step: VersionStep
) -> str:
    """Write the query of the changed rows between two versions.

    Args:
        weighed: A query of weights `w` and the view's columns as `c0`, `c1`, ….
        key: Columns that identify rows; empty if there are none. If exactly one removed row and one
            added row have a key, they are returned as an update.
    """
    # The changed rows are those whose weights do not add up to zero.
    names = [f"c{i}" for i in range(len(columns))]
    net = net_rows_query(weighed, columns)
    change = "CASE WHEN w < 0 THEN 'delete' ELSE 'insert' END"
    if key:
        lowered = {name.lower() for name in key}
        by = ", ".join(
            name for name, c in zip(names, columns, strict=True) if c.name.lower() in lowered
        )
        net = (
            f"SELECT *, sum(CASE WHEN w < 0 THEN -w ELSE 0 END) OVER (PARTITION BY {by}) AS gone, "
            f"sum(CASE WHEN w > 0 THEN w ELSE 0 END) OVER (PARTITION BY {by}) AS come "
            f"FROM ({net}) AS net"
        )
        change = (
            "CASE WHEN gone = 1 AND come = 1 "
            "THEN CASE WHEN w < 0 THEN 'update_before' ELSE 'update_after' END "
            "WHEN w < 0 THEN 'delete' ELSE 'insert' END"
        )
    shown = ", ".join(
        f"{name} AS {quote(column.name)}" for name, column in zip(names, columns, strict=True)
    )
    return vary_changelog_names(
        f"SELECT {step.write_change_columns(change)}, {shown} FROM ({net}) AS changes "
        "LATERAL VIEW explode(sequence(1, abs(w))) AS one"
    )


def net_rows_query(
    weighed: str, columns: Sequence[ViewColumn], *, signed_zeros: bool = False
) -> str:
    """Write the query for rows whose weights do not add up to zero.

    The query's columns are `c0`, `c1`, … and `w`.

    Args:
        signed_zeros: Whether 0.0 and -0.0, which Spark groups together, are different values.
    """
    names = [f"c{i}" for i in range(len(columns))]
    grouped = [
        f"CAST({name} AS STRING)"
        if signed_zeros and column.type.lower() in ("float", "double")
        else grouping_expression(name, column.type)
        for name, column in zip(names, columns, strict=True)
    ]
    kept = [
        name if name == one else f"any_value({name}) AS {name}"
        for name, one in zip(names, grouped, strict=True)
    ]
    return (
        f"SELECT {', '.join(kept)}, CAST(sum(w) AS BIGINT) AS w FROM ({weighed}) AS weighed "
        f"GROUP BY {', '.join(grouped)} HAVING sum(w) <> 0"
    )


def no_changes_query(
    columns: Sequence[ViewColumn], step: VersionStep, *, resync: bool = False
) -> str:
    """Write a query that returns no change, or a single `resync` row.

    A `resync` row requires a reader to replace its copy of the view.
    """
    nothing = ", ".join(f"CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in columns)
    change = step.write_change_columns("'resync'")
    return f"SELECT {change}, {nothing} WHERE {str(resync).lower()}"


def _before(pair: ColumnPair) -> str:
    old = pair.before
    return _cast(quote(old.name) if old else "NULL", old.type if old else None, pair.after.type)


def _cast(value: str, has: str | None, wanted: str) -> str:
    from vde_dagster.sql.casts import cast_by_name

    if has is None:
        return f"CAST(NULL AS {wanted})"
    return (
        value if is_same_type_text(has, wanted) else cast_by_name(value, has, wanted, strict=False)
    )


def _places(columns: Sequence[ViewColumn], types: Mapping[str, str], of: str = "") -> str:
    found = []
    for i, column in enumerate(columns):
        place = column.place or ""
        name = f"{of}.{quote(place)}" if of else quote(place)
        if column.fields is not None and place in types:
            value = f"CAST({column.fields.value(name, types[place])} AS {column.type})"
        else:
            value = _cast(name, types.get(place), column.type)
        found.append(f"{value} AS c{i}")
    return ", ".join(found)


@dataclass(frozen=True, slots=True)
class StepColumns:
    """A view's columns before and after each step of changes.

    Args:
        first: The columns before the first step; empty if the view did not exist.
        pairs: The columns after each step, paired with the matching columns before the step.
    """

    first: tuple[ViewColumn, ...]
    pairs: tuple[tuple[ColumnPair, ...], ...]

    @property
    def last(self) -> tuple[ViewColumn, ...]:
        return tuple(pair.after for pair in self.pairs[-1]) if self.pairs else self.first

    def at(self, step: int) -> tuple[ColumnPair, ...]:
        """Pair each column of the view's last version with the column that it was at a step's end.

        For example, if step 2 renamed `a` to `b`, `at(1)` returns the pair (after=b, before=a). A
        column that was added by a later step has `before=None`. Steps are numbered from 1; step 0
        is the state before the first step.
        """
        # Columns dropped after the step are left out, because a copy of the view has dropped them,
        # too. In columns added after the step, a copy has NULL.
        found = [ColumnPair(column, column) for column in self.last]
        for pairs in reversed(self.pairs[step:]):
            came = {pair.after: pair.before for pair in pairs}
            found = [
                ColumnPair(one.after, came[one.before] if one.before is not None else None)
                for one in found
            ]
        return tuple(found)


def convert_to_last_columns(query: str, pairs: Sequence[ColumnPair]) -> str:
    """Write a query that gives a step's changes the column names and types of the last version.

    >>> a, b = ViewColumn("a", "INT", "1"), ViewColumn("b", "BIGINT", "1")
    >>> convert_to_last_columns("SELECT 1", [ColumnPair(b, a)]).rpartition(", ")[2]
    'CAST(`a` AS BIGINT) AS `b` FROM (SELECT 1) AS step'
    """
    listed = [quote(name) for name, _ in CHANGE_COLUMNS]
    listed += (f"{_before(pair)} AS {quote(pair.after.name)}" for pair in pairs)
    return f"SELECT {', '.join(listed)} FROM ({query}) AS step"


def key_after_last_step(key: Sequence[str], pairs: Sequence[ColumnPair]) -> tuple[str, ...] | None:
    """Return a key's column names in the last version, or None if a key column was removed."""
    names = {pair.before.name: pair.after.name for pair in pairs if pair.before is not None}
    return tuple(names[name] for name in key) if all(name in names for name in key) else None


SUFFIX = "__changes"
"""Suffix of the names of views that show changes."""


def changes_view_query(
    rows: str | None, pairs: Sequence[ColumnPair], begun: VersionStep, steps: Sequence[str]
) -> str:
    """Write a query that returns the changes from any version to the last one.

    Args:
        rows: The query that reads the oldest version; None if that version has no view.
        pairs: The last version's columns, each with the matching column of the oldest version.
        steps: Queries of the later steps, in the last version's columns.

    >>> changes_view_query(None, [], VersionStep(0, None, 7, None), ["SELECT 1"]).count("UNION ALL")
    1
    """
    # The result starts with a `resync` mark and all rows of the oldest version as inserts, both
    # numbered with that version. A reader that has this version or a later one skips these rows by
    # their number.
    last = [pair.after for pair in pairs]
    parts = [no_changes_query(last, begun, resync=True)]
    if rows is not None:
        listed = ", ".join(
            f"CAST({'NULL' if one.before is None else quote(one.before.name)} AS {one.after.type}) "
            f"AS {quote(one.after.name)}"
            for one in pairs
        )
        insert = begun.write_change_columns("'insert'")
        parts.append(f"SELECT {insert}, {listed} FROM ({rows}) AS begun")
    return vary_changelog_names(" UNION ALL ".join([*parts, *steps]))


def grouping_expression(value: str, type_: str) -> str:
    """Write the SQL expression that Spark can use to group and sort equal values of a type.

    >>> grouping_expression("c0", "INT"), grouping_expression("c0", "MAP<STRING, INT>")
    ('c0', 'array_sort(map_entries(c0))')
    >>> grouping_expression("c0", "array<map<string,int>>")
    'transform(c0, x0 -> array_sort(map_entries(x0)))'
    >>> grouping_expression("c0", "array<variant>")
    'transform(c0, x0 -> concat(schema_of_variant(x0), to_json(x0)))'
    >>> grouping_expression("c0", "struct<a:int,b:map<string,int>>")
    "IF(c0 IS NULL, NULL, named_struct('f0', c0.`a`, 'f1', array_sort(map_entries(c0.`b`))))"
    """
    # The expression is the value itself if Spark can group by its type.
    # Maps need another expression. Spark 4.1 sorts maps to group by them, and then treats NULL like
    # 0, false or 1970-01-01, or fails for Iceberg's own arrays. Variants cannot be grouped by.
    return _form(value, type_.strip(), 0)


_NESTED = re.compile(r"(array|map|struct)\s*<(.*)>", re.IGNORECASE | re.DOTALL)
_FIELD = re.compile(r"(`(?:[^`]|``)*`|[^\s:`]+)\s*:?\s*(.*)", re.DOTALL)
_PIECE = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|.", re.DOTALL)
_UNGROUPED = re.compile(r"\b(?:map\s*<|variant\b)", re.IGNORECASE)


def _form(value: str, type_: str, depth: int) -> str:
    if type_.lower() == "variant":
        return f"concat(schema_of_variant({value}), to_json({value}))"
    nested = _NESTED.fullmatch(type_)
    if nested is None or not _UNGROUPED.search(type_):
        return value
    kind, parts = nested[1].lower(), list(_parts(nested[2]))
    own = f"x{depth}"
    if kind == "array":
        return f"transform({value}, {own} -> {_form(own, parts[0], depth + 1)})"
    if kind == "map":
        entries = f"map_entries({value})"
        key, held = (
            _form(f"{own}.{name}", part, depth + 1)
            for name, part in zip(("key", "value"), parts, strict=True)
        )
        if (key, held) != (f"{own}.key", f"{own}.value"):
            entries = f"transform({entries}, {own} -> struct({key} AS k, {held} AS v))"
        return f"array_sort({entries})"
    fields = []
    for number, part in enumerate(parts):
        match = _FIELD.fullmatch(part)
        assert match is not None, part
        name = match[1][1:-1].replace("``", "`") if match[1].startswith("`") else match[1]
        fields.append(f"'f{number}', {_form(f'{value}.{quote(name)}', match[2], depth)}")
    return f"IF({value} IS NULL, NULL, named_struct({', '.join(fields)}))"


def _parts(inner: str) -> Iterator[str]:
    """Split the text in a type's angle brackets at outer commas: `b,c<d,e>` -> `b`, `c<d,e>`."""
    depth, begun = 0, 0
    for piece in _PIECE.finditer(inner):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(piece[0], 0)
        if piece[0] == "," and not depth:
            yield inner[begun : piece.start()].strip()
            begun = piece.end()
    if inner[begun:].strip():
        yield inner[begun:].strip()
