"""Macros that write out the columns of other models: `@STAR` and `@UNION`.

Names, arguments and results as in SQLMesh (docs/concepts/macros/sqlmesh_macros.md there); casts
are written where the types are declared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vde_dagster.errors import ProjectError
from vde_dagster.project.macros.functions import given_items
from vde_dagster.project.macros.query_macros import arguments_of, written_identifier
from vde_dagster.project.macros.relation_columns import columns_of

if TYPE_CHECKING:
    from vde_dagster.project.macros.expansion import Expander


def star(expander: Expander, arguments: list[str]) -> str:
    """`@STAR(table[, alias, exclude := […], prefix := '', suffix := ''])`: all columns by name."""
    given = arguments_of(
        expander,
        "STAR",
        arguments,
        {
            "relation": None,
            "alias": "",
            "exclude": "[]",
            "prefix": "''",
            "suffix": "''",
            "quote_identifiers": "TRUE",
            "except_": "[]",
        },
    )
    texts = {name: expander.expand_text(text) for name, text in given.items()}
    bare = {name: expander.bare(text) for name, text in texts.items()}
    left_out = {
        expander.bare(one).lower()
        for name in ("exclude", "except_")
        for one in given_items(expander, [given[name]])
    }
    columns = columns_of(expander, texts["relation"])
    kept = {name: type_ for name, type_ in columns.items() if name.lower() not in left_out}
    if not kept:
        raise expander.error("@STAR has no columns left", "leave one out of exclude")
    quoted = expander.holds(texts["quote_identifiers"])
    table = bare["alias"] or bare["relation"].rpartition(".")[2].strip('`"')
    qualifier = written_identifier(expander, table, quoted=quoted)
    written = []
    for name, type_ in kept.items():
        column = f"{qualifier}.{written_identifier(expander, name, quoted=quoted)}"
        alias = f"{bare['prefix']}{name}{bare['suffix']}"
        value = f"CAST({column} AS {_type(expander, type_)})" if all(kept.values()) else column
        written.append(f"{value} AS {written_identifier(expander, alias, quoted=quoted)}")
    return ", ".join(written)


def union(expander: Expander, arguments: list[str]) -> str:
    """`@UNION([condition, ]['all' or 'distinct', ]table, …)`: of the columns that all have."""
    given = [expander.expand_text(argument).strip() for argument in arguments]
    condition = True
    if given and (known := _condition(expander, given[0])) is not None:
        condition = known
        del given[0]
    kind = "ALL"
    if given and given[0][:1] in ("'", '"'):
        kind = expander.bare(given.pop(0)).upper()
    if kind not in ("ALL", "DISTINCT"):
        raise expander.error(f"@UNION knows no kind '{kind}'", "write 'all' or 'distinct'")
    if not given:
        raise expander.error("@UNION needs a table", "write @UNION('all', a, b)")
    tables = [columns_of(expander, table) for table in given]
    typed = all(type_ for columns in tables for type_ in columns.values())
    shared = [
        name
        for name, type_ in tables[0].items()
        if all(name in other and (not typed or other[name] == type_) for other in tables)
    ]
    if not shared:
        raise expander.error("the tables of @UNION have no column in common")
    columns = ", ".join(
        f"CAST({name} AS {_type(expander, tables[0][name])}) AS {name}" if typed else name
        for name in (written_identifier(expander, one, quoted=False) for one in shared)
    )
    queries = [f"SELECT {columns} FROM {table}" for table in given]
    operator = " UNION " if kind == "DISTINCT" else " UNION ALL "
    return operator.join(queries if condition else queries[:1])


def _condition(expander: Expander, text: str) -> bool | None:
    """Return what a condition of constants comes to; None for a kind or a table."""
    try:
        value = expander.constant(text)
    except ProjectError:
        return None
    return value if isinstance(value, bool) else None


def _type(expander: Expander, spark: str | None) -> str:
    """Write a type of Spark in the file's dialect."""
    dialect = expander.scope.dialect
    if spark is None or dialect == "spark":
        return spark or ""
    from sqlglot import exp

    return exp.DataType.build(spark, dialect="spark").sql(dialect=dialect)
