"""Kinds of operands. An operator's result may differ between dialects for some kinds."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from vde_dagster.semantics._sqlglot import called_function
from vde_dagster.semantics.errors import Finding, make_finding_at
from vde_dagster.semantics.types import infer
from vde_dagster.sql.definitions import TableColumn

RULE = "another dialect's operator"

_D = exp.DType
KINDS = {
    **dict.fromkeys((_D.TINYINT, _D.SMALLINT, _D.INT, _D.BIGINT), "int"),
    **dict.fromkeys((_D.FLOAT, _D.DOUBLE), "float"),
    _D.DECIMAL: "decimal",
    **dict.fromkeys((_D.TEXT, _D.VARCHAR, _D.CHAR), "text"),
    _D.DATE: "date",
    **dict.fromkeys((_D.TIMESTAMP, _D.TIMESTAMPTZ, _D.TIMESTAMPLTZ, _D.TIMESTAMPNTZ), "time"),
    _D.BOOLEAN: "boolean",
    _D.BINARY: "binary",
    **dict.fromkeys((_D.ARRAY, _D.MAP), "list"),
    _D.STRUCT: "struct",
}
DIALECTS = {
    "postgres": "PostgreSQL",
    "duckdb": "DuckDB",
    "trino": "Trino",
    "athena": "Athena",
    "bigquery": "BigQuery",
    "snowflake": "Snowflake",
    "redshift": "Redshift",
    "mysql": "MySQL",
    "tsql": "SQL Server",
    "fabric": "Fabric",
}


@dataclass(frozen=True, slots=True)
class Origin:
    """The SQL dialect that a query was translated from.

    Args:
        trusted: Functions and operators that the project declares to have the same result on Spark.
        tool: The tool whose project contains the query, as in `Model.tool`.
        other_texts: Table columns whose values the dialect casts to a different text than Spark.
    """

    dialect: str = "spark"
    trusted: frozenset[str] = frozenset()
    tool: str = ""
    other_texts: frozenset[TableColumn] = frozenset()

    @property
    def name(self) -> str:
        return DIALECTS.get(self.dialect, self.dialect)

    def trust_declaration(self, word: str) -> str:
        """Return the header property, or dbt's setting, that accepts an operator or function."""
        if self.tool == "dbt":
            return f'dialect_trust = ["{word}"] under [tool.vde]'
        return f'dialect_trust ("{word}")'


def kind_of_value(e: exp.Expr) -> str | None:
    e = e.unnest()
    found = infer(e)
    if called_function(e) in _FLOATS_OF_FLOATS and len(e.expressions) == 1:
        kind = kind_of_value(e.expressions[0])
        return kind if kind == "float" or found is None else KINDS.get(found.this, "other")
    if found is None:
        return "text" if isinstance(e, exp.Anonymous) and called_function(e) in _TEXTS else None
    if str(found).startswith("INTERVAL"):
        return "interval"
    return KINDS.get(found.this, "other")


_FLOATS_OF_FLOATS = frozenset({"ceil", "ceiling", "floor"})
"""Functions that return a float for a float, except in Spark."""
_TEXTS = frozenset(
    {"concat", "concat_ws", "date_format", "initcap", "left", "lower", "lpad", "ltrim", "md5"}
    | {"regexp_replace", "replace", "right", "rpad", "rtrim", "sha2", "substr", "substring"}
    | {"to_json", "translate", "trim", "upper"}
)
"""Functions whose result counts as a text if its type is unknown."""


def certain_finding(e: exp.Expr, origin: Origin, what: str, hint: str) -> Finding:
    return make_finding_at(RULE, e, f"on {origin.name}, {what}", f"{hint}; {_trust(e, origin)}")


def untyped_finding(e: exp.Expr, origin: Origin, what: str) -> Finding:
    """Report an operator on columns of unknown types."""
    columns = [c.name for c in e.find_all(exp.Column) if infer(c) is None and c.name]
    names = ", ".join(dict.fromkeys(columns)) or "an operand"
    message = f"on {origin.name}, {what}, and the type of {names} is unknown"
    return make_finding_at(RULE, e, message, f"{_TYPES}; {_trust(e, origin)}", untyped=True)


def _trust(e: exp.Expr, origin: Origin) -> str:
    word = WORDS[called_function(e) if isinstance(e, exp.Anonymous) else e.__class__]
    return f"or accept Spark's result: {origin.trust_declaration(word)}"


_TYPES = "declare the types of the columns in their sources, or cast an operand"
WORDS: dict[object, str] = {
    exp.Div: "/",
    "try_divide": "safe_divide",
    exp.IntDiv: "//",
    exp.DPipe: "||",
    **dict.fromkeys((exp.Union, exp.Intersect, exp.Except), "union"),
    "concat": "concat",
    **{name: name for name in ("concat_ws", "coalesce", "listagg", "if", "to_json")},
    **{name: name for name in ("array", "greatest", "least")},
    exp.Values: "values",
    exp.Case: "case",
    "array_join": "array_to_string",
    "round": "round",
    exp.Cast: "cast",
    exp.TryCast: "cast",
    exp.Sub: "-",
    exp.Add: "+",
    "avg": "avg",
    "mean": "avg",
    **dict.fromkeys(("length", "char_length"), "length"),
    **dict.fromkeys(("get", "element_at", "try_element_at"), "[]"),
    "date_format": "to_char",
    "median": "median",
    "percentile": "percentile_cont",
    "add_months": "add_months",
    "timestamp_millis": "epoch_ms",
}
"""Names of operators for the property and the setting `dialect_trust`."""
