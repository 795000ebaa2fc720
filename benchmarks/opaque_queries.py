"""Why queries of a folder are not understood: reasons by count.

python -m benchmarks.opaque_queries --folder bigquery-etl/sql [--dialect bigquery] [--show star]

The files are those of the given name (`query.sql`); ones with Jinja or several statements are left
out. A query of another dialect is written as SQLGlot writes it for Spark. Beside a query may lie
`schema.yaml` with its columns, as in Mozilla's bigquery-etl; they are what readers of the table
know of it (`--undeclared` leaves them out).
"""

from __future__ import annotations

import argparse
import logging
import re
from collections import Counter
from pathlib import Path
from typing import Any

import sqlglot
import yaml
from sqlglot.errors import SqlglotError

from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.errors import SemanticError

_TYPES = {"INTEGER": "BIGINT", "INT64": "BIGINT", "FLOAT": "DOUBLE", "FLOAT64": "DOUBLE"}
_TYPES |= {"BYTES": "BINARY", "NUMERIC": "DECIMAL(38, 9)", "BIGNUMERIC": "DECIMAL(38, 9)"}
_TYPES |= {"BOOL": "BOOLEAN", "DATETIME": "TIMESTAMP", "TIME": "STRING", "JSON": "STRING"}


def main() -> int:
    """Read all queries and print how many are understood, and why the others are not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--dialect", default="bigquery")
    parser.add_argument("--name", default="query.sql", help="the files' name")
    parser.add_argument("--undeclared", action="store_true", help="no table's columns are known")
    parser.add_argument("--show", default="", help="print the files whose reason has this text")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    sqlglot.logger.disabled = True
    schema = {} if args.undeclared else declared(args.folder)
    outcomes: Counter[str] = Counter()
    why: Counter[str] = Counter()
    for file in sorted(args.folder.rglob(args.name)):
        outcome, reason = read(file.read_text(), args.dialect, schema)
        outcomes[outcome] += 1
        if reason:
            why[f"{outcome}: {_general(reason)}"] += 1
            if args.show and args.show in reason:
                print(f"{file}: {reason}")
    print(f"{outcomes.total()} files: " + ", ".join(f"{n} {o}" for o, n in outcomes.most_common()))
    for text, n in why.most_common():
        print(f"{n:5} {text}")
    return 0


def read(text: str, dialect: str, schema: dict[str, dict[str, str]]) -> tuple[str, str]:
    """What became of one query, and why."""
    if "{{" in text or "{%" in text:
        return "with Jinja", ""
    try:
        statements = [t for t in sqlglot.parse(text, dialect=dialect) if t is not None]
        if len(statements) != 1 or not isinstance(statements[0], sqlglot.exp.Query):
            return "no single query", ""
        query = statements[0].sql(dialect="spark")
    except SqlglotError as error:
        return "not read", str(error).splitlines()[0]
    except RecursionError:
        return "not read", "nested too deeply"
    try:
        version = analyze(query, schema).version
    except SemanticError as error:
        return "refused", str(error).splitlines()[0]
    return ("opaque", version.opaque) if version.opaque else ("understood", "")


def declared(folder: Path) -> dict[str, dict[str, str]]:
    """The columns of the tables that have a file `schema.yaml`, under all names for them."""
    found: dict[str, dict[str, str]] = {}
    for file in folder.rglob("schema.yaml"):
        try:
            fields = (yaml.load(file.read_text(), yaml.CSafeLoader) or {}).get("fields") or []
        except yaml.YAMLError:
            continue  # It names another file of their tool's.
        columns = {field["name"]: _type(field) for field in fields}
        parts = file.parent.relative_to(folder).parts[-3:]
        for start in range(len(parts) - 1):
            found[".".join(parts[start:])] = columns
    return found


def _type(field: dict[str, Any]) -> str:
    kind = str(field.get("type", "STRING")).upper()
    if kind in ("RECORD", "STRUCT"):
        members = ", ".join(f"`{f['name']}`: {_type(f)}" for f in field.get("fields") or [])
        kind = f"STRUCT<{members}>"
    kind = _TYPES.get(kind, kind)
    return f"ARRAY<{kind}>" if str(field.get("mode", "")).upper() == "REPEATED" else kind


def _general(reason: str) -> str:
    """A reason without the names in it, so that like ones are counted together."""
    reason = re.sub(r"column \S+ may", "column … may", reason)
    reason = re.sub(r"columns of \S+ are", "columns of … are", reason)
    reason = re.sub(r"^\S+\.\* names", "….* names", reason)
    reason = re.sub(r"USING \(\S+\)", "USING (…)", reason)
    reason = re.sub(r"Column '[^']*' .*", "Column …", reason)
    return reason[:100]


if __name__ == "__main__":
    raise SystemExit(main())
