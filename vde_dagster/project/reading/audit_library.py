"""The built-in audits: from a call's arguments to a query that returns the failing rows.

Names, arguments and meaning are SQLMesh's (docs/concepts/audits.md there).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Items = dict[str, tuple[str, ...]]
"""SQL texts by argument; a single value is a list of one."""


@dataclass(frozen=True, slots=True)
class BuiltinAudit:
    """A built-in audit.

    Args:
        required: Arguments that have to be given.
        build: Makes the query from the arguments' SQL texts.
        optional: Arguments with their defaults (`condition` is always allowed).
    """

    required: tuple[str, ...]
    build: Callable[[Items], str]
    optional: dict[str, str] = field(default_factory=dict)


def _where(items: Items, failing: str) -> str:
    condition = items.get("condition")
    narrowed = f"({condition[0]}) AND ({failing})" if condition else failing
    return f"SELECT * FROM @this_model WHERE {narrowed}"


def _filter(items: Items) -> str:
    condition = items.get("condition")
    return f" WHERE {condition[0]}" if condition else ""


def _any(test: str, argument: str = "columns") -> Callable[[Items], str]:
    def build(items: Items) -> str:
        return _where(items, " OR ".join(test.format(c=column) for column in items[argument]))

    return build


def _unique_values(items: Items) -> str:
    parts = [
        f"SELECT '{_name(column)}' AS column_name, CAST({column} AS STRING) AS duplicated_value, "
        f"COUNT(*) AS row_count FROM @this_model{_filter(items)} "
        f"GROUP BY {column} HAVING COUNT(*) > 1"
        for column in items["columns"]
    ]
    return " UNION ALL ".join(parts)


def _unique_combination(items: Items) -> str:
    columns = ", ".join(items["columns"])
    return (
        f"SELECT {columns}, COUNT(*) AS row_count FROM @this_model{_filter(items)} "
        f"GROUP BY {columns} HAVING COUNT(*) > 1"
    )


def _forall(items: Items) -> str:
    return _where(items, " OR ".join(f"NOT ({criterion})" for criterion in items["criteria"]))


def _number_of_rows(items: Items) -> str:
    return (
        f"SELECT COUNT(*) AS row_count FROM @this_model{_filter(items)} "
        f"HAVING COUNT(*) <= {items['threshold'][0]}"
    )


def _accepted(negate: bool) -> Callable[[Items], str]:
    def build(items: Items) -> str:
        column, values = items["column"][0], ", ".join(items["is_in"])
        return _where(items, f"{column} {'' if negate else 'NOT '}IN ({values})")

    return build


def _at_least_one(items: Items) -> str:
    (column,) = items["column"]
    return (
        f"SELECT 1 AS failed FROM @this_model{_filter(items)} "
        f"HAVING COUNT({column}) = 0 AND COUNT(*) > 0"
    )


def _not_constant(items: Items) -> str:
    (column,) = items["column"]
    return (
        f"SELECT COUNT(DISTINCT {column}) AS distinct_values FROM @this_model{_filter(items)} "
        f"HAVING COUNT(DISTINCT {column}) <= 1"
    )


def _not_null_proportion(items: Items) -> str:
    (column,), (threshold,) = items["column"], items["threshold"]
    return (
        f"SELECT COUNT({column}) AS not_null, COUNT(*) AS row_count "
        f"FROM @this_model{_filter(items)} "
        f"HAVING COUNT({column}) < {threshold} * COUNT(*)"
    )


def _accepted_range(items: Items) -> str:
    (column,) = items["column"]
    strict = items["inclusive"][0].upper() == "FALSE"
    low, high = items["min_v"][0], items["max_v"][0]
    tests = []
    if low.upper() != "NULL":
        tests.append(f"{column} {'<=' if strict else '<'} {low}")
    if high.upper() != "NULL":
        tests.append(f"{column} {'>=' if strict else '>'} {high}")
    return _where(items, " OR ".join(tests) or "FALSE")


def _length_between(items: Items) -> str:
    (column,) = items["column"]
    low, high = items["min_v"][0], items["max_v"][0]
    return _where(items, f"LENGTH({column}) < {low} OR LENGTH({column}) > {high}")


def _match(test: str) -> Callable[[Items], str]:
    def build(items: Items) -> str:
        (column,) = items["column"]
        argument = "patterns"
        tests = [test.format(c=column, p=pattern) for pattern in items[argument]]
        return _where(items, " OR ".join(tests))

    return build


def _sequential(items: Items) -> str:
    (column,), (step,) = items["column"], items["interval"]
    return (
        f"SELECT * FROM (SELECT {column}, LAG({column}) OVER (ORDER BY {column}) AS previous "
        f"FROM @this_model{_filter(items)}) AS steps "
        f"WHERE NOT previous IS NULL AND {column} <> previous + {step}"
    )


def _name(column: str) -> str:
    return column.strip("`").replace("'", "\\'")


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
    "accepted_range": BuiltinAudit(
        ("column",), _accepted_range, {"min_v": "NULL", "max_v": "NULL", "inclusive": "TRUE"}
    ),
    "string_length_between": BuiltinAudit(
        ("column",), _length_between, {"min_v": "0", "max_v": "2147483647"}
    ),
    "match_regex_pattern_list": BuiltinAudit(("column", "patterns"), _match("NOT ({c} RLIKE {p})")),
    "not_match_regex_pattern_list": BuiltinAudit(("column", "patterns"), _match("{c} RLIKE {p}")),
    "sequential_values": BuiltinAudit(("column",), _sequential, {"interval": "1"}),
}
