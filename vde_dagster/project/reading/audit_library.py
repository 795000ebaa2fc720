"""The built-in audits: from a call's arguments to a query that returns the failing rows.

Names, arguments and meaning are SQLMesh's (docs/concepts/audits.md there).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from vde_dagster.project.reading.audit_pieces import Items, narrowed_by, outside, rows_where
from vde_dagster.project.reading.audit_statistics import (
    chi_square,
    exclusive_ranges,
    figure_in_range,
    kl_divergence,
    sequential,
    z_score,
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
