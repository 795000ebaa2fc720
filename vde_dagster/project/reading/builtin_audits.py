"""Built-in audits: queries for failing rows, built from a call's arguments.

Names, arguments and meaning are SQLMesh's (docs/concepts/audits.md there).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vde_dagster.base.plugins import Seam


@dataclass(frozen=True, slots=True)
class BuiltinAudit:
    """An audit that every project can use, such as `not_null`.

    Args:
        required: Required arguments.
        build: Returns the query for the arguments' SQL texts.
        optional: Arguments with their defaults (`condition` is always allowed).
        also: Aliases of arguments, from SQLMesh's documentation.
    """

    required: tuple[str, ...]
    build: Callable[[Items], str]
    optional: dict[str, str] = field(default_factory=dict)
    also: dict[str, str] = field(default_factory=dict)


Items = dict[str, tuple[str, ...]]
"""SQL texts by argument; a single value is a tuple of length one."""
Build = Callable[[Items], str]


def _failing_rows(items: Items, failing: str) -> str:
    """Write the query of failing rows; the argument `condition` limits the checked rows."""
    condition = items.get("condition")
    narrowed = f"({condition[0]}) AND ({failing})" if condition else failing
    return f"SELECT * FROM @this_model WHERE {narrowed}"


def _where(items: Items) -> str:
    condition = items.get("condition")
    return f" WHERE {condition[0]}" if condition else ""


def _fill(template: str, items: Items, more: Mapping[str, Build]) -> str:
    texts = {name: ", ".join(given) for name, given in items.items()}
    texts |= {name: build(items) for name, build in more.items()}
    return template.format(where=_where(items), **texts)


def _query(template: str, **more: Build) -> Build:
    """Return a builder of an audit's query from a template with `{argument}` and `{where}`.

    `template` is a text, or the name of a template in `builtin_audits.sql`.
    """
    return lambda items: _fill(_TEMPLATES.get(template, template), items, more)


def _rows_where(test: str, **more: Build) -> Build:
    """Return a builder of an audit's query for the rows where a condition is true."""
    return lambda items: _failing_rows(items, _fill(test, items, more))


def _any_of(test: str, argument: str = "columns", joined: str = " OR ") -> Build:
    """Return a builder of an audit's query that tests each value of `argument`, such as columns.

    `{c}` in the test is replaced by the value; `joined` joins the tests.
    """

    def build(items: Items) -> str:
        tests = (_fill(test, items, {"c": lambda _, one=one: one}) for one in items[argument])  # type: ignore[misc]
        return _failing_rows(items, joined.join(tests))

    return build


def _outside_limits(value: str) -> Build:
    """Return a builder of the condition for values outside of `min_v` to `max_v`."""

    def build(items: Items) -> str:
        strict = items["inclusive"][0].upper() == "FALSE"
        low, high = items["min_v"][0], items["max_v"][0]
        what = _fill(value, items, {})
        tests = []
        if low.upper() != "NULL":
            tests.append(f"{what} {'<=' if strict else '<'} {low}")
        if high.upper() != "NULL":
            tests.append(f"{what} {'>=' if strict else '>'} {high}")
        return " OR ".join(tests) or "FALSE"

    return build


def _aggregate_query(function: str) -> Build:
    """Return a builder of a query that compares an aggregate with `min_v` and `max_v`."""
    return _query(
        f"SELECT * FROM (SELECT {function}({{column}}) AS figure FROM @this_model{{where}}) "
        "AS figures WHERE {outside}",
        outside=_outside_limits("figure"),
    )


def _partition_by(items: Items) -> str:
    """Return the argument `partition_clause` as `PARTITION BY a, b `."""
    text = ", ".join(items["partition_clause"]).strip()
    if len(text) > 1 and text[0] == text[-1] == "'":
        text = text[1:-1].strip()
    if text.upper() in ("", "FALSE", "NULL"):
        return ""
    words = text.split(None, 2)
    if [word.upper() for word in words[:2]] == ["PARTITION", "BY"]:
        text = words[2]
    return f"PARTITION BY {text} "


def _and_condition(items: Items) -> str:
    return f" AND ({items['condition'][0]})" if "condition" in items else ""


def _comparison(items: Items) -> str:
    return "<=" if items["dependent"][0].upper() == "FALSE" else ">"


def _unique_values(items: Items) -> str:
    names = {column: column.strip("`").replace("'", "\\'") for column in items["columns"]}
    parts = [
        f"SELECT '{names[column]}' AS column_name, CAST({column} AS STRING) AS duplicated_value, "
        f"COUNT(*) AS row_count FROM @this_model{_where(items)} "
        f"GROUP BY {column} HAVING COUNT(*) > 1"
        for column in items["columns"]
    ]
    return " UNION ALL ".join(parts)


def _matches_pattern(pattern: str, value: str = "{column}") -> Build:
    text = pattern.replace("\\", "\\\\")
    return _rows_where(f"NOT ({value} RLIKE '{{pattern}}')", pattern=lambda _: text)


_TEMPLATES = {
    head.removeprefix("-- ").partition(":")[0]: " ".join(lines)
    for head, *lines in (
        block.split("\n")
        for block in Path(__file__).with_suffix(".sql").read_text("utf-8").strip().split("\n\n")
    )
}
"""Queries by audit. The query of `kl_divergence` follows SQLMesh's documentation, because engines
refuse SQLMesh's own query if the two columns have different names. In both queries, a value that
occurs in only one of the two columns adds nothing to the divergence.
"""

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
    "not_null": BuiltinAudit(("columns",), _any_of("{c} IS NULL")),
    "not_empty_string": BuiltinAudit(("column",), _any_of("{c} = ''", "column")),
    "unique_values": BuiltinAudit(("columns",), _unique_values),
    "unique_combination_of_columns": BuiltinAudit(("columns",), _query("unique_combination")),
    "accepted_values": BuiltinAudit(("column", "is_in"), _rows_where("{column} NOT IN ({is_in})")),
    "not_accepted_values": BuiltinAudit(("column", "is_in"), _rows_where("{column} IN ({is_in})")),
    "forall": BuiltinAudit(("criteria",), _any_of("NOT ({c})", "criteria")),
    "number_of_rows": BuiltinAudit(("threshold",), _query("number_of_rows")),
    "at_least_one": BuiltinAudit(("column",), _query("at_least_one")),
    "not_constant": BuiltinAudit(("column",), _query("not_constant")),
    "not_null_proportion": BuiltinAudit(("column", "threshold"), _query("not_null_proportion")),
    "accepted_range": BuiltinAudit(
        ("column",), _rows_where("{outside}", outside=_outside_limits("{column}")), _LIMITS
    ),
    "mean_in_range": BuiltinAudit(("column",), _aggregate_query("AVG"), _LIMITS),
    "stddev_in_range": BuiltinAudit(("column",), _aggregate_query("STDDEV"), _LIMITS),
    "string_length_between": BuiltinAudit(
        ("column",), _rows_where("{outside}", outside=_outside_limits("LENGTH({column})")), _LIMITS
    ),
    "string_length_equal": BuiltinAudit(("column", "v"), _rows_where("LENGTH({column}) <> {v}")),
    "match_regex_pattern_list": BuiltinAudit(
        _PATTERNS, _any_of("NOT ({column} RLIKE {c})", "patterns", " AND ")
    ),
    "not_match_regex_pattern_list": BuiltinAudit(
        _PATTERNS, _any_of("{column} RLIKE {c}", "patterns")
    ),
    "match_like_pattern_list": BuiltinAudit(
        _PATTERNS, _any_of("NOT ({column} LIKE {c})", "patterns", " AND ")
    ),
    "not_match_like_pattern_list": BuiltinAudit(
        _PATTERNS, _any_of("{column} LIKE {c}", "patterns")
    ),
    "valid_email": BuiltinAudit(("column",), _matches_pattern(_EMAIL)),
    "valid_http_method": BuiltinAudit(("column",), _rows_where(f"{{column}} NOT IN ({_METHODS})")),
    "valid_url": BuiltinAudit(("column",), _matches_pattern(_URL)),
    "valid_uuid": BuiltinAudit(("column",), _matches_pattern(_UUID, "LOWER({column})")),
    "sequential_values": BuiltinAudit(("column",), _query("sequential_values"), {"interval": "1"}),
    "mutually_exclusive_ranges": BuiltinAudit(
        ("lower_bound_column", "upper_bound_column"),
        _query("mutually_exclusive_ranges", partition=_partition_by),
        {"partition_clause": "FALSE"},
    ),
    "z_score": BuiltinAudit(("column", "threshold"), _query("z_score")),
    "kl_divergence": BuiltinAudit(
        ("source_column", "target_column", "threshold"),
        _query("kl_divergence"),
        also={"column": "source_column"},
    ),
    "chi_square": BuiltinAudit(
        ("column_a", "column_b", "critical_value"),
        _query("chi_square", also=_and_condition, wanted=_comparison),
        {"dependent": "TRUE"},
        {"column": "column_a", "target_column": "column_b"},
    ),
}
PLUGINS: Seam[BuiltinAudit] = Seam("audits", tuple(BUILTIN_AUDITS))
