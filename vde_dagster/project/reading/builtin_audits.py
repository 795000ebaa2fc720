"""Built-in audits: queries for failing rows, built from a call's arguments.

Names, arguments and meaning are SQLMesh's (docs/concepts/audits.md there).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from vde_dagster.base.plugins import Seam


@dataclass(frozen=True, slots=True)
class BuiltinAudit:
    """Built-in audit.

    Args:
        required: Required arguments.
        build: Builds the query from the arguments' SQL texts.
        optional: Arguments with their defaults (`condition` is always allowed).
        also: Aliases of arguments, from SQLMesh's documentation.
    """

    required: tuple[str, ...]
    build: Callable[[Items], str]
    optional: dict[str, str] = field(default_factory=dict)
    also: dict[str, str] = field(default_factory=dict)


Items = dict[str, tuple[str, ...]]
"""SQL texts by argument; a single value is a list of length one."""
Build = Callable[[Items], str]


def _failing_rows(items: Items, failing: str) -> str:
    """Return the query for failing rows, among the rows that meet `condition`."""
    condition = items.get("condition")
    narrowed = f"({condition[0]}) AND ({failing})" if condition else failing
    return f"SELECT * FROM @this_model WHERE {narrowed}"


def _where(items: Items) -> str:
    """Return ` WHERE condition`, or an empty text if the call has no condition."""
    condition = items.get("condition")
    return f" WHERE {condition[0]}" if condition else ""


def _filled(template: str, items: Items, more: Mapping[str, Build]) -> str:
    texts = {name: ", ".join(given) for name, given in items.items()}
    texts |= {name: build(items) for name, build in more.items()}
    return template.format(where=_where(items), **texts)


def _query(template: str, **more: Build) -> Build:
    """Build a query from a text with `{argument}`, and `{where}` for the call's condition."""
    return lambda items: _filled(template, items, more)


def _rows(test: str, **more: Build) -> Build:
    """Build the query for rows that meet a test."""
    return lambda items: _failing_rows(items, _filled(test, items, more))


def _any(test: str, argument: str = "columns", joined: str = " OR ") -> Build:
    """Build the query for rows that meet a test `{c}` for a column, criterion or pattern."""

    def build(items: Items) -> str:
        tests = (_filled(test, items, {"c": lambda _, one=one: one}) for one in items[argument])  # type: ignore[misc]
        return _failing_rows(items, joined.join(tests))

    return build


def _outside(value: str) -> Build:
    """Build the test that a value is outside `min_v` and `max_v`; NULL means no limit."""

    def build(items: Items) -> str:
        strict = items["inclusive"][0].upper() == "FALSE"
        low, high = items["min_v"][0], items["max_v"][0]
        what = _filled(value, items, {})
        tests = []
        if low.upper() != "NULL":
            tests.append(f"{what} {'<=' if strict else '<'} {low}")
        if high.upper() != "NULL":
            tests.append(f"{what} {'>=' if strict else '>'} {high}")
        return " OR ".join(tests) or "FALSE"

    return build


def _figure(function: str) -> Build:
    """Build the query that compares an aggregate of a column with `min_v` and `max_v`."""
    return _query(
        f"SELECT * FROM (SELECT {function}({{column}}) AS figure FROM @this_model{{where}}) "
        "AS figures WHERE {outside}",
        outside=_outside("figure"),
    )


def _partition(items: Items) -> str:
    """Return `PARTITION BY a, b `; the argument may be quoted or omit these words."""
    text = ", ".join(items["partition_clause"]).strip()
    if len(text) > 1 and text[0] == text[-1] == "'":
        text = text[1:-1].strip()
    if text.upper() in ("", "FALSE", "NULL"):
        return ""
    words = text.split(None, 2)
    if [word.upper() for word in words[:2]] == ["PARTITION", "BY"]:
        text = words[2]
    return f"PARTITION BY {text} "


def _unique_values(items: Items) -> str:
    names = {column: column.strip("`").replace("'", "\\'") for column in items["columns"]}
    parts = [
        f"SELECT '{names[column]}' AS column_name, CAST({column} AS STRING) AS duplicated_value, "
        f"COUNT(*) AS row_count FROM @this_model{_where(items)} "
        f"GROUP BY {column} HAVING COUNT(*) > 1"
        for column in items["columns"]
    ]
    return " UNION ALL ".join(parts)


def _valid(pattern: str, value: str = "{column}") -> Build:
    text = pattern.replace("\\", "\\\\")
    return _rows(f"NOT ({value} RLIKE '{{pattern}}')", pattern=lambda _: text)


_UNIQUE = _query(
    "SELECT {columns}, COUNT(*) AS row_count FROM @this_model{where} "
    "GROUP BY {columns} HAVING COUNT(*) > 1"
)
_NUMBER_OF_ROWS = _query(
    "SELECT COUNT(*) AS row_count FROM @this_model{where} HAVING COUNT(*) <= {threshold}"
)
_AT_LEAST_ONE = _query(
    "SELECT 1 AS failed FROM @this_model{where} HAVING COUNT({column}) = 0 AND COUNT(*) > 0"
)
_NOT_CONSTANT = _query(
    "SELECT COUNT(DISTINCT {column}) AS distinct_values FROM @this_model{where} "
    "HAVING COUNT(DISTINCT {column}) <= 1"
)
_NOT_NULL_PROPORTION = _query(
    "SELECT COUNT({column}) AS not_null, COUNT(*) AS row_count FROM @this_model{where} "
    "HAVING COUNT({column}) <= {threshold} * COUNT(*)"
)
_SEQUENTIAL = _query(
    "SELECT * FROM (SELECT {column} AS audited_value, "
    "LAG({column}) OVER (ORDER BY {column}) AS previous FROM @this_model{where}) AS steps "
    "WHERE NOT (audited_value = previous + {interval})"
)
_EXCLUSIVE_RANGES = _query(
    "SELECT * FROM (SELECT *, "
    "COALESCE(lower_bound <= upper_bound, FALSE) AS lower_bound_lte_upper_bound, "
    "COALESCE(upper_bound <= next_lower_bound, is_last_record, FALSE) "
    "AS upper_bound_lte_next_lower_bound "
    "FROM (SELECT {lower_bound_column} AS lower_bound, {upper_bound_column} AS upper_bound, "
    "LEAD({lower_bound_column}) OVER ({partition}ORDER BY {lower_bound_column}, "
    "{upper_bound_column}) AS next_lower_bound, "
    "ROW_NUMBER() OVER ({partition}ORDER BY {lower_bound_column} DESC, {upper_bound_column} DESC) "
    "= 1 AS is_last_record FROM @this_model{where}) AS ranges) AS compared "
    "WHERE NOT (lower_bound_lte_upper_bound AND upper_bound_lte_next_lower_bound)",
    partition=_partition,
)
"""Ranges that end before they begin, or after the next range begins; ends may touch."""
_Z_SCORE = _query(
    "SELECT *, ({column} - audited_mean) / NULLIF(audited_deviation, 0) AS z_score "
    "FROM @this_model CROSS JOIN (SELECT AVG({column}) AS audited_mean, "
    "STDDEV({column}) AS audited_deviation FROM @this_model{where}) AS stats "
    "WHERE ABS(({column} - audited_mean) / NULLIF(audited_deviation, 0)) > {threshold}"
)
"""Values more than `threshold` standard deviations from the mean of the checked rows."""
_SHARES = (
    "(SELECT {0} AS value, COUNT(*) / SUM(COUNT(*)) OVER () AS {1} "
    "FROM @this_model{{where}} GROUP BY {0})"
)
_KL_DIVERGENCE = _query(
    "SELECT * FROM (SELECT SUM((p - q) * LN(p / q)) AS kl_divergence "
    f"FROM {_SHARES.format('{source_column}', 'p')} AS a "
    f"JOIN {_SHARES.format('{target_column}', 'q')} AS b "
    "ON a.value = b.value) AS divergence WHERE kl_divergence > {threshold}"
)
"""Symmetric Kullback-Leibler divergence of two columns' values above a threshold.

A value in only one of the columns adds nothing, as in SQLMesh's query. Engines refuse that query
for columns of different names, so this query follows SQLMesh's documentation.
"""
_CHI_SQUARE = _query(
    "SELECT * FROM (SELECT "
    "(COUNT(DISTINCT value_a) - 1) * (COUNT(DISTINCT value_b) - 1) AS degrees_of_freedom, "
    "SUM((observed - expected) * (observed - expected) / expected) AS chi_square "
    "FROM (SELECT value_a, value_b, observed, "
    "SUM(observed) OVER (PARTITION BY value_a) * SUM(observed) OVER (PARTITION BY value_b) "
    "/ SUM(observed) OVER () AS expected "
    "FROM (SELECT {column_a} AS value_a, {column_b} AS value_b, COUNT(*) AS observed "
    "FROM @this_model WHERE {column_a} IS NOT NULL AND {column_b} IS NOT NULL{also} "
    "GROUP BY {column_a}, {column_b}) AS cells) AS tested) AS figures "
    "WHERE NOT (chi_square {wanted} {critical_value})",
    also=lambda items: f" AND ({items['condition'][0]})" if "condition" in items else "",
    wanted=lambda items: "<=" if items["dependent"][0].upper() == "FALSE" else ">",
)
"""Chi-square of two columns that contradicts the claimed dependence."""

_METHODS = ", ".join(
    f"'{name}'"
    for name in ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT")
)
_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
_URL = r"^(https?|ftp)://[^\s/$.?#].[^\s]*$"
_EMAIL = r"^[a-zA-Z0-9_.+-]+@[a-zA-Z0-9-]+\.[a-zA-Z0-9-.]+$"
_LIMITS = {"min_v": "NULL", "max_v": "NULL", "inclusive": "TRUE"}
_PATTERNS = ("column", "patterns")

BUILTIN_AUDITS: dict[str, BuiltinAudit] = {
    "not_null": BuiltinAudit(("columns",), _any("{c} IS NULL")),
    "not_empty_string": BuiltinAudit(("column",), _any("{c} = ''", "column")),
    "unique_values": BuiltinAudit(("columns",), _unique_values),
    "unique_combination_of_columns": BuiltinAudit(("columns",), _UNIQUE),
    "accepted_values": BuiltinAudit(("column", "is_in"), _rows("{column} NOT IN ({is_in})")),
    "not_accepted_values": BuiltinAudit(("column", "is_in"), _rows("{column} IN ({is_in})")),
    "forall": BuiltinAudit(("criteria",), _any("NOT ({c})", "criteria")),
    "number_of_rows": BuiltinAudit(("threshold",), _NUMBER_OF_ROWS),
    "at_least_one": BuiltinAudit(("column",), _AT_LEAST_ONE),
    "not_constant": BuiltinAudit(("column",), _NOT_CONSTANT),
    "not_null_proportion": BuiltinAudit(("column", "threshold"), _NOT_NULL_PROPORTION),
    "accepted_range": BuiltinAudit(
        ("column",), _rows("{outside}", outside=_outside("{column}")), _LIMITS
    ),
    "mean_in_range": BuiltinAudit(("column",), _figure("AVG"), _LIMITS),
    "stddev_in_range": BuiltinAudit(("column",), _figure("STDDEV"), _LIMITS),
    "string_length_between": BuiltinAudit(
        ("column",), _rows("{outside}", outside=_outside("LENGTH({column})")), _LIMITS
    ),
    "string_length_equal": BuiltinAudit(("column", "v"), _rows("LENGTH({column}) <> {v}")),
    "match_regex_pattern_list": BuiltinAudit(
        _PATTERNS, _any("NOT ({column} RLIKE {c})", "patterns", " AND ")
    ),
    "not_match_regex_pattern_list": BuiltinAudit(_PATTERNS, _any("{column} RLIKE {c}", "patterns")),
    "match_like_pattern_list": BuiltinAudit(
        _PATTERNS, _any("NOT ({column} LIKE {c})", "patterns", " AND ")
    ),
    "not_match_like_pattern_list": BuiltinAudit(_PATTERNS, _any("{column} LIKE {c}", "patterns")),
    "valid_email": BuiltinAudit(("column",), _valid(_EMAIL)),
    "valid_http_method": BuiltinAudit(("column",), _rows(f"{{column}} NOT IN ({_METHODS})")),
    "valid_url": BuiltinAudit(("column",), _valid(_URL)),
    "valid_uuid": BuiltinAudit(("column",), _valid(_UUID, "LOWER({column})")),
    "sequential_values": BuiltinAudit(("column",), _SEQUENTIAL, {"interval": "1"}),
    "mutually_exclusive_ranges": BuiltinAudit(
        ("lower_bound_column", "upper_bound_column"),
        _EXCLUSIVE_RANGES,
        {"partition_clause": "FALSE"},
    ),
    "z_score": BuiltinAudit(("column", "threshold"), _Z_SCORE),
    "kl_divergence": BuiltinAudit(
        ("source_column", "target_column", "threshold"),
        _KL_DIVERGENCE,
        also={"column": "source_column"},
    ),
    "chi_square": BuiltinAudit(
        ("column_a", "column_b", "critical_value"),
        _CHI_SQUARE,
        {"dependent": "TRUE"},
        {"column": "column_a", "target_column": "column_b"},
    ),
}
PLUGINS: Seam[BuiltinAudit] = Seam("audits", tuple(BUILTIN_AUDITS))
