"""Functions in public projects of other dialects: how many are verified or translated.

`python -m benchmarks.dialect_coverage FOLDER … [--dialect NAME] [--top N]`

A folder is a copy of a project of SQLMesh or dbt. A file's dialect is that of its MODEL header, of
the project's configuration or profile, or NAME. Macros and Jinja are blanked out before a file is
parsed, so that a query with them is counted as far as it is text. Each mention of a function is
counted.
"""

from __future__ import annotations

import argparse
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.translate import write_spark_sql
from vde_dagster.sql.other_dialects.verified import find_unverified, signature

ADAPTERS = {
    "sqlserver": "tsql",
    "databricks": "spark",
    "motherduck": "duckdb",
    "gcp_postgres": "postgres",
}
_HEADER = re.compile(r"^\s*MODEL\s*\(.*?\)\s*;", re.DOTALL | re.IGNORECASE | re.MULTILINE)
_DIALECT = re.compile(r"\bdialect['\"]?\s*[:=]?\s*['\"]?(\w+)", re.IGNORECASE)
_ADAPTER = re.compile(r"^\s*type:\s*['\"]?(\w+)", re.MULTILINE)
_JINJA = [
    (re.compile(r"\{#.*?#\}", re.DOTALL), " "),
    (re.compile(r"\{%.*?%\}", re.DOTALL), " "),
    (re.compile(r"\{\{[^}]*type_string\(.*?\}\}"), "varchar"),
    (re.compile(r"\{\{[^}]*type_timestamp\(.*?\}\}"), "timestamp"),
    (re.compile(r"\{\{[^}]*type_\w+\(.*?\}\}"), "int"),
    (re.compile(r"\{\{.*?\}\}", re.DOTALL), "jinja"),
    (re.compile(r"@\{?\w+\}?"), "macro"),
]


def main() -> int:
    """Print the share of functions by dialect, and the commonest ones that are refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--dialect", help="of files whose project names none")
    parser.add_argument("--top", type=int, default=15, help="refused functions that are printed")
    given = parser.parse_args()
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
    known: Counter[str] = Counter()
    refused: dict[str, Counter[str]] = defaultdict(Counter)
    whole: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for folder in given.folders:
        for dialect, tree in _queries(folder, given.dialect):
            for node in tree.walk():
                key = signature(node)
                if key is None or (isinstance(node, exp.Anonymous) and key.startswith("macro")):
                    continue
                if find_unverified(_alone(node), dialect, frozenset()) is None:
                    known[dialect] += 1
                else:
                    refused[dialect][key] += 1
            try:
                write_spark_sql(tree.copy(), dialect)
                whole[dialect]["written"] += 1
            except Unwritable as problem:
                whole[dialect]["refused"] += 1
                reasons[dialect][str(problem)[:80]] += 1
    for dialect in sorted(known.keys() | refused.keys()):
        bad = refused[dialect].total()
        total = known[dialect] + bad
        queries = whole[dialect]
        print(
            f"{dialect}: {known[dialect]} of {total} mentions of functions are verified or "
            f"translated ({known[dialect] / total:.1%}); {queries['written']} of "
            f"{queries.total()} queries are written"
        )
        for key, count in refused[dialect].most_common(given.top):
            print(f"    {count} {key}")
        for reason, count in reasons[dialect].most_common(given.top):
            print(f"    query: {count} {reason}")
    if not given.folders:
        print("give folders of projects; nothing was counted")
    return 0


def _alone(node: exp.Expr) -> exp.Expr:
    """Return a function without the functions in its arguments."""
    made = node.copy()
    for inner in list(made.walk()):
        if inner is not made and signature(inner) is not None and inner.parent is not None:
            inner.replace(exp.column("a"))
    return made


def _queries(folder: Path, usual: str | None) -> Iterator[tuple[str, exp.Expr]]:
    """Yield the queries of a project's files with their dialects, as far as they are parsed."""
    default = _default_dialect(folder) or usual
    for path in sorted(folder.rglob("*.sql")):
        parts = {part.lower() for part in path.relative_to(folder).parts[:-1]}
        if parts & {"macros", "target", "dbt_packages", "seeds"}:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        header = _HEADER.search(text)
        named = _DIALECT.search(header[0]) if header is not None else None
        dialect = (named[1].lower() if named is not None else None) or default
        if dialect is None or dialect == "spark":
            continue
        body = text[header.end() :] if header is not None else text
        for pattern, instead in _JINJA:
            body = pattern.sub(instead, body)
        try:
            trees = sqlglot.parse(body, dialect=dialect)
        except (SqlglotError, ValueError):
            continue
        yield from ((dialect, tree) for tree in trees if isinstance(tree, exp.Query))


def _default_dialect(folder: Path) -> str | None:
    """Return the dialect of a project's configuration, or of its first profile."""
    for name, pattern in (
        ("config.y*ml", _DIALECT),
        ("config.py", _DIALECT),
        ("profiles.yml", _ADAPTER),
    ):
        for path in sorted(folder.rglob(name)):
            found = pattern.search(path.read_text(encoding="utf-8", errors="replace"))
            if found is not None:
                name = found[1].lower()
                return ADAPTERS.get(name, name)
    return None


if __name__ == "__main__":
    raise SystemExit(main())
