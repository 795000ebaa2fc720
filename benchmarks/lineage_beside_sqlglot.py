"""Lineage of TPC-DS beside SQLGlot's: which columns each output column is made of or decided by.

    python -m benchmarks.lineage_beside_sqlglot FOLDER

FOLDER is SQLGlot's unpacked source distribution, which has the 99 queries and their tables
(`pip download --no-deps --no-binary :all: sqlglot`). SQLGlot follows all columns in an output's
expression; joins, filters and groups are none of its sources, and so not compared.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.lineage import lineage

from vde_dagster.semantics.analysis import analyze

INSIDE = ("conditional", "window", "sort")
"""Kinds of deciding columns that stand within an output's expression."""


def queries(folder: Path) -> Iterator[str]:
    """Yield the queries; each is followed by what SQLGlot makes of it."""
    text = (folder / "tests/fixtures/optimizer/tpc-ds/tpc-ds.sql").read_text()
    text = "".join(line for line in text.splitlines(True) if not line.startswith(("--", "#")))
    trees = [tree for tree in sqlglot.parse(text, read="snowflake") if tree is not None]
    yield from (tree.sql("spark") for tree in trees[::2])


def schema(folder: Path) -> dict[str, dict[str, str]]:
    """Return the tables' columns and types."""
    spec = importlib.util.spec_from_file_location("helpers", folder / "tests/helpers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, dict[str, str]] = module.TPCDS_SCHEMA
    return found


def theirs(name: str, sql: str, tables: dict[str, Any]) -> set[tuple[str, str]]:
    """Return the leaves of SQLGlot's lineage."""
    found = set()
    for node in lineage(name, sql, schema=tables, dialect="spark").walk():
        if isinstance(node.expression, exp.Table) and not node.downstream:
            found.add((node.expression.name.lower(), node.name.split(".")[-1].strip('"`').lower()))
    return found


def main(folder: Path) -> None:
    """Compare all columns of all queries, and print those that differ."""
    tables = schema(folder)
    columns = same = opaque = 0
    for number, sql in enumerate(queries(folder), 1):
        found = analyze(sql, tables)
        opaque += found.version.opaque is not None
        for name, sources in found.lineage.columns.items():
            columns += 1
            ours = {(source.table, source.column) for source in sources}
            decided = found.lineage.conditions[name]
            ours |= {(one.table, one.column) for one in decided if one.kind in INSIDE}
            try:
                leaves = theirs(name, sql, tables)
            except (sqlglot.errors.SqlglotError, ValueError) as error:
                print(f"query {number}, {name}: SQLGlot: {error}")
                continue
            same += ours == leaves
            if ours != leaves:
                more, less = sorted(ours - leaves), sorted(leaves - ours)
                print(f"query {number}, {name}: only ours {more}; only SQLGlot's {less}")
    print(
        f"{columns} columns, {same} with equal leaves; {opaque} queries not understood as a whole"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
