"""Rules that restrict queries of an environment to its models.

Spark reads any file for ``text.`/etc/passwd` ``, and calls any Java method for `reflect(…)`, but
users with access to an environment need not have access to Spark's machine. Calls of forbidden
functions are searched in the query's tokens, because the parsed tree may lack a call that Spark
executes. Tables are searched in the parsed tree.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName, quote
from vde_dagster.base.texts import closest
from vde_dagster.errors import UsageError
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.scanner import SourceText, find_too_deep
from vde_dagster.sql.templates import find_jinja
from vde_dagster.sql.trees import QUERY_WORDS, plain_dialect

if TYPE_CHECKING:
    from sqlglot import exp


FORBIDDEN_FUNCTIONS = frozenset(
    {
        # Any method of any Java class.
        "reflect",
        "try_reflect",
        "java_method",
        # Names of tables or functions computed while the query runs.
        "identifier",
        # Functions that read a file named by an argument.
        "from_protobuf",
        "to_protobuf",
        "read_files",
        "cloud_files",
    }
)

TABLE_FUNCTIONS = frozenset(
    {
        "range",
        "explode",
        "explode_outer",
        "posexplode",
        "posexplode_outer",
        "inline",
        "inline_outer",
        "stack",
        "json_tuple",
        "variant_explode",
        "variant_explode_outer",
        "collations",
        "sql_keywords",
    }
)

_RAW = "or, on your own machine, add --raw"


def check_query(sql: str, known: Collection[ModelName], names: TableNames) -> None:
    """Refuse a query that does more than read an environment's models and their external tables.

    Raises:
        UsageError: The text is not a query, or reads or calls something else.
    """
    from sqlglot.errors import SqlglotError

    from vde_dagster.sql.reading import read_query

    refuse_substitution(sql)
    source = SourceText(Path("query"), sql)
    if find_jinja(source) is not None:
        raise UsageError("Jinja is not supported in a query", hint="write it in Spark SQL")
    if find_too_deep(source) is not None:
        raise UsageError("the query is nested too deeply", hint="write it with fewer brackets")
    try:
        _check_tokens(sql)
        _check_tree(read_query(sql).tree, known, names)
    except SqlglotError as error:
        raise UsageError(
            f"the query is invalid: {str(error).splitlines()[0]}",
            hint="write one query in Spark SQL",
        ) from error
    except RecursionError:
        raise UsageError(
            "the query is nested too deeply", hint="write it with fewer brackets"
        ) from None


def refuse_substitution(sql: str) -> None:
    """Refuse SQL that contains a variable such as `${env:HOME}`."""
    # With `spark.sql.variable.substitute`, Spark replaces variables, also in strings.
    if "${" in sql:
        raise UsageError(
            "'${' is not allowed in a query, because Spark may insert environment variables there",
            hint=f"in a string, write concat('$', '{{…'), {_RAW}",
        )


def _check_tokens(sql: str) -> None:
    from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

    tokens = plain_dialect("spark").tokenize(sql)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise UsageError("the query is empty", hint="write a SELECT")
    if tokens[0].text.upper() not in QUERY_WORDS:
        raise _not_a_query(f"it begins with {tokens[0].text.upper()}")
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.token_type == TokenType.SEMICOLON:
            raise _not_a_query("it is more than one statement")
        if token.token_type == TokenType.STRING or following is None:
            continue
        if following.text == "(" and token.text.lower() in FORBIDDEN_FUNCTIONS:
            raise UsageError(
                f"the function {token.text.lower()} is not allowed in a query",
                hint=f"do not use it, {_RAW}",
            )


def _check_tree(tree: exp.Expr, known: Collection[ModelName], names: TableNames) -> None:
    from sqlglot import exp

    from vde_dagster.sql.reading import find_tables_read

    if not isinstance(tree, exp.Query | exp.Values):
        raise _not_a_query(f"it is a statement, {type(tree).__name__.upper()}")
    writes = tree.find(exp.Into, exp.DML, exp.DDL, exp.Command)
    if writes is not None and not isinstance(writes, exp.Query):
        raise _not_a_query(f"it contains {type(writes).__name__.upper()}")
    if tree.find(exp.QueryTransform) is not None:
        raise UsageError(
            "TRANSFORM … USING, which runs a program, is not allowed in a query",
            hint=f"do without it, {_RAW}",
        )
    if tree.find(exp.Parameter, exp.SessionParameter, exp.Placeholder) is not None:
        raise UsageError("a query must not contain variables or parameters", hint="write the value")
    for node in tree.find_all(exp.Table, exp.Lateral, exp.TableFromRows):
        if not isinstance(node.this, exp.Identifier | exp.Query):
            _check_table_function(node)
    for table in find_tables_read(tree):
        _check_table([part.name for part in table.parts], known, names)


def _check_table_function(node: exp.Expr) -> None:
    from vde_dagster.sql.reading import call_name

    name = call_name(node.this)
    qualified = bool(node.args.get("db") or node.args.get("catalog"))
    if name not in TABLE_FUNCTIONS or qualified:
        shown = f"from {name}(…)" if name else node.sql(dialect="spark")
        raise UsageError(
            f"a query cannot read {shown}",
            hint=f"read models, external tables and {', '.join(sorted(TABLE_FUNCTIONS))}; {_RAW}",
        )


def _check_table(parts: list[str], known: Collection[ModelName], names: TableNames) -> None:
    written = ".".join(part if part.isidentifier() else quote(part) for part in parts)
    if names.model_name_or_none(parts) in known:
        return
    near = closest(written, [str(one) for one in known])
    advice = f"did you mean '{near}'?" if near else "to list models, run `vde info`"
    raise UsageError(
        f"'{written}' is neither a model of the environment nor an external table of its models",
        hint=f"{advice}; {_RAW}",
    )


def _not_a_query(why: str) -> UsageError:
    return UsageError(
        f"this is not a single query: {why}", hint="write one SELECT; other statements do not run"
    )
