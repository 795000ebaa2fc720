"""The tables of docs/dialects.md: functions by dialect that are verified, translated or refused.

`python -m benchmarks.dialect_page [--write]`
"""

from __future__ import annotations

import argparse
import logging
from collections import defaultdict
from pathlib import Path

import sqlglot
from sqlglot.errors import SqlglotError

from benchmarks.dialect_grid import DOCUMENTED, VALUES, filled, keys_of, templates
from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.translate import write_spark_sql
from vde_dagster.sql.other_dialects.verified import verified_functions
from vde_dagster_tests.yaml_files import read_yaml

PAGE = Path(__file__).parents[1] / "docs" / "dialects.md"
BEGIN, END = "<!-- tables of benchmarks/dialect_page.py -->", "<!-- end of the tables -->"
NAMES = {
    "duckdb": "DuckDB",
    "postgres": "PostgreSQL",
    "trino": "Trino and Athena",
    "bigquery": "BigQuery",
    "snowflake": "Snowflake",
    "redshift": "Redshift",
    "mysql": "MySQL",
    "tsql": "SQL Server and Fabric",
}


def tables() -> str:
    """Return the counts by dialect, and the functions of each."""
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    counts = ["| dialect | verified as they are | verified, translated | tried and refused |"]
    counts.append("|---|---|---|---|")
    lists: list[str] = []
    for dialect, shown in NAMES.items():
        found = _sorted_functions(dialect)
        sizes = [str(len(found[state])) for state in ("same", "translated", "refused")]
        counts.append(f"| {shown} | {' | '.join(sizes)} |")
        lists += ["", f"### {shown}", ""]
        for state, title in (
            ("same", "Verified as they are"),
            ("translated", "Verified, in a translation of our own"),
            ("refused", "Tried and refused"),
        ):
            names = ", ".join(f"`{name}`" for name in sorted(found[state]))
            lists += [f"{title}: {names or 'none'}.", ""]
    return "\n".join([*counts, *lists]).rstrip() + "\n"


def _sorted_functions(dialect: str) -> dict[str, set[str]]:
    known = verified_functions(dialect)
    found: dict[str, set[str]] = defaultdict(set)
    for expression in _expressions(dialect):
        for key in keys_of(expression, dialect):
            name = key.partition("(")[0].partition("/")[0].lower()
            if key not in known:
                found["refused"].add(name)
            elif _is_translated(expression, dialect):
                found["translated"].add(name)
            else:
                found["same"].add(name)
    found["same"] -= found["translated"]
    found["refused"] -= found["same"] | found["translated"]
    return found


def _expressions(dialect: str) -> list[str]:
    """Return the expressions of the grid, or of the documentation, with the functions tried."""
    cases = read_yaml(DOCUMENTED)["documented"]
    of_documents = [case["written"] for case in cases if case["dialect"] == dialect]
    return [filled(one, dialect, 1, 1)[0] for one in templates(dialect)] + of_documents


def _is_translated(expression: str, dialect: str) -> bool:
    """Return whether our text of an expression is another one than SQLGlot's alone."""
    try:
        tree = sqlglot.parse_one(f"SELECT {expression} AS v", dialect=dialect)
        return write_spark_sql(tree.copy(), dialect, None) != tree.sql("spark")
    except (Unwritable, SqlglotError):
        return False


def page_with_tables(text: str) -> str:
    """Return the page with its tables written again."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}{END}{after}"


def main() -> int:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write them into the page")
    if parser.parse_args().write:
        PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(f"{len(VALUES)} types of values\n{tables()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
