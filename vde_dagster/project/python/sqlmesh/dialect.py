"""Functions of `sqlmesh.core.dialect` for macros, which parse SQL and names of tables."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from vde_dagster.sql.reading import parse_plain, parse_plain_statements

MacroVar = exp.Parameter
"""SQLGlot's class for a variable `@name` in a tree."""


def parse_one(sql: str, dialect: Any = None, into: Any = None) -> exp.Expr:
    return parse_plain(sql, dialect, into)


def parse(sql: str, default_dialect: Any = None, match_dialect: bool = True) -> list[exp.Expr]:
    return parse_plain_statements(sql, default_dialect)


def normalize_model_name(
    table: Any, default_catalog: str | None = None, dialect: Any = None
) -> str:
    """Return a model's full name, with the default catalog, each part quoted."""
    name = table if isinstance(table, exp.Table) else _table(table, dialect)
    if default_catalog and name.db and not name.catalog:
        name = name.copy()
        name.set("catalog", exp.to_identifier(default_catalog))
    return ".".join(f'"{part.name}"' for part in name.parts)


def to_schema(sql_path: Any, dialect: Any = None) -> exp.Table:
    """Parse the name of a schema, optionally with a catalog."""
    if isinstance(sql_path, exp.Table) and sql_path.this is None:
        return sql_path
    found = _table(sql_path, dialect).copy()
    found.set("catalog", found.args.get("db"))
    found.set("db", found.this)
    found.set("this", None)
    return found


def schema_(db: Any, catalog: Any = None, quoted: bool | None = None) -> exp.Table:
    """Return a schema, optionally with a catalog, as SQLGlot's `Table` without a table name."""
    parts = {"db": db, "catalog": catalog}
    made = {key: exp.to_identifier(one, quoted=quoted) for key, one in parts.items() if one}
    return exp.Table(this=None, **made)


def _table(name: Any, dialect: Any) -> exp.Table:
    if isinstance(name, exp.Column):
        name = ".".join(part.sql() for part in name.parts)
    if isinstance(name, exp.Table):
        return name
    found = parse_plain(str(name), dialect, exp.Table)
    assert isinstance(found, exp.Table)
    return found
