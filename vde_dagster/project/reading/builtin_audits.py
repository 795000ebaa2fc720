"""The built-in audits: from a call's arguments to a query that returns the failing rows.

Names, arguments and meaning are SQLMesh's (docs/concepts/audits.md there).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from vde_dagster.base.plugins import Seam


def sequential(items: Items) -> str:
    """Find values that are not the one before plus `interval`."""
    (column,), (step,) = items["column"], items["interval"]
    return (
        f"SELECT * FROM (SELECT {column} AS audited_value, "
        f"LAG({column}) OVER (ORDER BY {column}) AS previous "
        f"FROM @this_model{narrowed_by(items)}) AS steps "
        f"WHERE NOT (audited_value = previous + {step})"
    )


def exclusive_ranges(items: Items) -> str:
    """Find ranges that end before they begin, or after the next one begins; ends may touch."""
    (lower,), (upper,) = items["lower_bound_column"], items["upper_bound_column"]
    clause = _partition(items["partition_clause"])
    return (
        "SELECT * FROM (SELECT *, "
        "COALESCE(lower_bound <= upper_bound, FALSE) AS lower_bound_lte_upper_bound, "
        "COALESCE(upper_bound <= next_lower_bound, is_last_record, FALSE) "
        "AS upper_bound_lte_next_lower_bound "
        f"FROM (SELECT {lower} AS lower_bound, {upper} AS upper_bound, "
        f"LEAD({lower}) OVER ({clause}ORDER BY {lower}, {upper}) AS next_lower_bound, "
        f"ROW_NUMBER() OVER ({clause}ORDER BY {lower} DESC, {upper} DESC) = 1 AS is_last_record "
        f"FROM @this_model{narrowed_by(items)}) AS ranges) AS compared "
        "WHERE NOT (lower_bound_lte_upper_bound AND upper_bound_lte_next_lower_bound)"
    )


def _partition(given: tuple[str, ...]) -> str:
    """Return `PARTITION BY a, b `, which may be given in quotes or without its words."""
    text = ", ".join(given).strip()
    if len(text) > 1 and text[0] == text[-1] == "'":
        text = text[1:-1].strip()
    if text.upper() in ("", "FALSE", "NULL"):
        return ""
    words = text.split(None, 2)
    if [word.upper() for word in words[:2]] == ["PARTITION", "BY"]:
        text = words[2]
    return f"PARTITION BY {text} "


def z_score(items: Items) -> str:
    """Find values more than `threshold` standard deviations from the mean of what is looked at."""
    (column,), (threshold,) = items["column"], items["threshold"]
    return (
        f"SELECT *, ({column} - audited_mean) / NULLIF(audited_deviation, 0) AS z_score "
        "FROM @this_model "
        f"CROSS JOIN (SELECT AVG({column}) AS audited_mean, "
        f"STDDEV({column}) AS audited_deviation "
        f"FROM @this_model{narrowed_by(items)}) AS stats "
        f"WHERE ABS(({column} - audited_mean) / NULLIF(audited_deviation, 0)) > {threshold}"
    )


def figure_in_range(function: str) -> Callable[[Items], str]:
    """Find an aggregate of a column outside `min_v` and `max_v`."""

    def build(items: Items) -> str:
        (column,) = items["column"]
        return (
            f"SELECT * FROM (SELECT {function}({column}) AS figure "
            f"FROM @this_model{narrowed_by(items)}) AS figures WHERE {outside(items, 'figure')}"
        )

    return build


def kl_divergence(items: Items) -> str:
    """Find a symmetric Kullback-Leibler divergence of two columns' values above a threshold.

    A value that only one of the columns has adds nothing, as in SQLMesh's query. Engines refuse
    that one for columns of different names, so this is what its documents say.
    """
    (source,), (target,) = items["source_column"], items["target_column"]
    (threshold,) = items["threshold"]

    def shares(column: str, name: str) -> str:
        return (
            f"(SELECT {column} AS value, COUNT(*) / SUM(COUNT(*)) OVER () AS {name} "
            f"FROM @this_model{narrowed_by(items)} GROUP BY {column})"
        )

    return (
        "SELECT * FROM (SELECT SUM((p - q) * LN(p / q)) AS kl_divergence "
        f"FROM {shares(source, 'p')} AS a JOIN {shares(target, 'q')} AS b "
        f"ON a.value = b.value) AS divergence WHERE kl_divergence > {threshold}"
    )


def chi_square(items: Items) -> str:
    """Find a chi-square of two columns that does not say what is claimed of their dependence."""
    (a,), (b,) = items["column_a"], items["column_b"]
    wanted = "<=" if items["dependent"][0].upper() == "FALSE" else ">"
    condition = f" AND ({items['condition'][0]})" if "condition" in items else ""
    return (
        "SELECT * FROM (SELECT "
        "(COUNT(DISTINCT value_a) - 1) * (COUNT(DISTINCT value_b) - 1) AS degrees_of_freedom, "
        "SUM((observed - expected) * (observed - expected) / expected) AS chi_square "
        "FROM (SELECT value_a, value_b, observed, "
        "SUM(observed) OVER (PARTITION BY value_a) * SUM(observed) OVER (PARTITION BY value_b) "
        "/ SUM(observed) OVER () AS expected "
        f"FROM (SELECT {a} AS value_a, {b} AS value_b, COUNT(*) AS observed FROM @this_model "
        f"WHERE {a} IS NOT NULL AND {b} IS NOT NULL{condition} GROUP BY {a}, {b}) AS cells"
        ") AS tested) AS figures "
        f"WHERE NOT (chi_square {wanted} {items['critical_value'][0]})"
    )


@dataclass(frozen=True, slots=True)
class BuiltinAudit:
    """A built-in audit.

    Args:
        required: Arguments that have to be given.
        build: Makes the query from the arguments' SQL texts.
        optional: Arguments with their defaults (`condition` is always allowed).
        also: Other names of arguments, which SQLMesh's documentation has.
    """

    required: tuple[str, ...]
    build: Callable[[Items], str]
    optional: dict[str, str] = field(default_factory=dict)
    also: dict[str, str] = field(default_factory=dict)


def _any(test: str, argument: str = "columns") -> Callable[[Items], str]:
    def build(items: Items) -> str:
        return rows_where(items, " OR ".join(test.format(c=column) for column in items[argument]))

    return build


def _unique_values(items: Items) -> str:
    parts = [
        f"SELECT '{_name(column)}' AS column_name, CAST({column} AS STRING) AS duplicated_value, "
        f"COUNT(*) AS row_count FROM @this_model{narrowed_by(items)} "
        f"GROUP BY {column} HAVING COUNT(*) > 1"
        for column in items["columns"]
    ]
    return " UNION ALL ".join(parts)


def _unique_combination(items: Items) -> str:
    columns = ", ".join(items["columns"])
    return (
        f"SELECT {columns}, COUNT(*) AS row_count FROM @this_model{narrowed_by(items)} "
        f"GROUP BY {columns} HAVING COUNT(*) > 1"
    )


def _forall(items: Items) -> str:
    return rows_where(items, " OR ".join(f"NOT ({criterion})" for criterion in items["criteria"]))


def _number_of_rows(items: Items) -> str:
    return (
        f"SELECT COUNT(*) AS row_count FROM @this_model{narrowed_by(items)} "
        f"HAVING COUNT(*) <= {items['threshold'][0]}"
    )


def _accepted(negate: bool) -> Callable[[Items], str]:
    def build(items: Items) -> str:
        column, values = items["column"][0], ", ".join(items["is_in"])
        return rows_where(items, f"{column} {'' if negate else 'NOT '}IN ({values})")

    return build


def _at_least_one(items: Items) -> str:
    (column,) = items["column"]
    return (
        f"SELECT 1 AS failed FROM @this_model{narrowed_by(items)} "
        f"HAVING COUNT({column}) = 0 AND COUNT(*) > 0"
    )


def _not_constant(items: Items) -> str:
    (column,) = items["column"]
    return (
        f"SELECT COUNT(DISTINCT {column}) AS distinct_values FROM @this_model{narrowed_by(items)} "
        f"HAVING COUNT(DISTINCT {column}) <= 1"
    )


def _not_null_proportion(items: Items) -> str:
    (column,), (threshold,) = items["column"], items["threshold"]
    return (
        f"SELECT COUNT({column}) AS not_null, COUNT(*) AS row_count "
        f"FROM @this_model{narrowed_by(items)} "
        f"HAVING COUNT({column}) <= {threshold} * COUNT(*)"
    )


def _accepted_range(items: Items) -> str:
    return rows_where(items, outside(items, items["column"][0]))


def _length_between(items: Items) -> str:
    return rows_where(items, outside(items, f"LENGTH({items['column'][0]})"))


def _length_equal(items: Items) -> str:
    return rows_where(items, f"LENGTH({items['column'][0]}) <> {items['v'][0]}")


def _match(test: str, joined: str) -> Callable[[Items], str]:
    def build(items: Items) -> str:
        (column,) = items["column"]
        tests = [test.format(c=column, p=pattern) for pattern in items["patterns"]]
        return rows_where(items, f" {joined} ".join(tests))

    return build


def _valid(pattern: str, value: str = "{c}") -> Callable[[Items], str]:
    text = pattern.replace("\\", "\\\\")

    def build(items: Items) -> str:
        return rows_where(items, f"NOT ({value.format(c=items['column'][0])} RLIKE '{text}')")

    return build


def _valid_method(items: Items) -> str:
    methods = ", ".join(f"'{method}'" for method in _METHODS)
    return rows_where(items, f"{items['column'][0]} NOT IN ({methods})")


def _name(column: str) -> str:
    return column.strip("`").replace("'", "\\'")


_METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT")
_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
_URL = r"^(https?|ftp)://[^\s/$.?#].[^\s]*$"
_EMAIL = r"^[a-zA-Z0-9_.+-]+@[a-zA-Z0-9-]+\.[a-zA-Z0-9-.]+$"
_LIMITS = {"min_v": "NULL", "max_v": "NULL", "inclusive": "TRUE"}
_PATTERNS = ("column", "patterns")

BUILTIN_AUDITS: dict[str, BuiltinAudit] = {
    "not_null": BuiltinAudit(("columns",), _any("{c} IS NULL")),
    "not_empty_string": BuiltinAudit(("column",), _any("{c} = ''", "column")),
    "unique_values": BuiltinAudit(("columns",), _unique_values),
    "unique_combination_of_columns": BuiltinAudit(("columns",), _unique_combination),
    "accepted_values": BuiltinAudit(("column", "is_in"), _accepted(False)),
    "not_accepted_values": BuiltinAudit(("column", "is_in"), _accepted(True)),
    "forall": BuiltinAudit(("criteria",), _forall),
    "number_of_rows": BuiltinAudit(("threshold",), _number_of_rows),
    "at_least_one": BuiltinAudit(("column",), _at_least_one),
    "not_constant": BuiltinAudit(("column",), _not_constant),
    "not_null_proportion": BuiltinAudit(("column", "threshold"), _not_null_proportion),
    "accepted_range": BuiltinAudit(("column",), _accepted_range, _LIMITS),
    "mean_in_range": BuiltinAudit(("column",), figure_in_range("AVG"), _LIMITS),
    "stddev_in_range": BuiltinAudit(("column",), figure_in_range("STDDEV"), _LIMITS),
    "string_length_between": BuiltinAudit(("column",), _length_between, _LIMITS),
    "string_length_equal": BuiltinAudit(("column", "v"), _length_equal),
    "match_regex_pattern_list": BuiltinAudit(_PATTERNS, _match("NOT ({c} RLIKE {p})", "AND")),
    "not_match_regex_pattern_list": BuiltinAudit(_PATTERNS, _match("{c} RLIKE {p}", "OR")),
    "match_like_pattern_list": BuiltinAudit(_PATTERNS, _match("NOT ({c} LIKE {p})", "AND")),
    "not_match_like_pattern_list": BuiltinAudit(_PATTERNS, _match("{c} LIKE {p}", "OR")),
    "valid_email": BuiltinAudit(("column",), _valid(_EMAIL)),
    "valid_http_method": BuiltinAudit(("column",), _valid_method),
    "valid_url": BuiltinAudit(("column",), _valid(_URL)),
    "valid_uuid": BuiltinAudit(("column",), _valid(_UUID, "LOWER({c})")),
    "sequential_values": BuiltinAudit(("column",), sequential, {"interval": "1"}),
    "mutually_exclusive_ranges": BuiltinAudit(
        ("lower_bound_column", "upper_bound_column"),
        exclusive_ranges,
        {"partition_clause": "FALSE"},
    ),
    "z_score": BuiltinAudit(("column", "threshold"), z_score),
    "kl_divergence": BuiltinAudit(
        ("source_column", "target_column", "threshold"),
        kl_divergence,
        also={"column": "source_column"},
    ),
    "chi_square": BuiltinAudit(
        ("column_a", "column_b", "critical_value"),
        chi_square,
        {"dependent": "TRUE"},
        {"column": "column_a", "target_column": "column_b"},
    ),
}
PLUGINS: Seam[BuiltinAudit] = Seam("audits", tuple(BUILTIN_AUDITS))


Items = dict[str, tuple[str, ...]]
"""SQL texts by argument; a single value is a list of one."""


def rows_where(items: Items, failing: str) -> str:
    """Return the query of rows that fail, of those that `condition` holds for."""
    condition = items.get("condition")
    narrowed = f"({condition[0]}) AND ({failing})" if condition else failing
    return f"SELECT * FROM @this_model WHERE {narrowed}"


def narrowed_by(items: Items) -> str:
    """Return ` WHERE condition`, or nothing where the call has no condition."""
    condition = items.get("condition")
    return f" WHERE {condition[0]}" if condition else ""


def outside(items: Items, value: str) -> str:
    """Return the test that a value is outside `min_v` and `max_v`; NULL is no limit."""
    strict = items["inclusive"][0].upper() == "FALSE"
    low, high = items["min_v"][0], items["max_v"][0]
    tests = []
    if low.upper() != "NULL":
        tests.append(f"{value} {'<=' if strict else '<'} {low}")
    if high.upper() != "NULL":
        tests.append(f"{value} {'>=' if strict else '>'} {high}")
    return " OR ".join(tests) or "FALSE"
