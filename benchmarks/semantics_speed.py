"""CPU time of versions, lineage and types: per query, and for a project of many models.

    python benchmarks/semantics_speed.py [--models 1000] [--columns 20] [--folder DIR]

`--folder` takes a directory of .sql files (one query each, such as TPC-DS) to time instead of the
built-in queries; their tables' columns are unknown then unless `schema.yaml` stands beside them.
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from pathlib import Path

START = time.process_time()

from vde_dagster.semantics.analysis import analyze  # noqa: E402
from vde_dagster.semantics.versions.version import SemanticVersion  # noqa: E402

CORE = {"id": "INT", "event_date": "DATE", "grp": "STRING", "amount": "DOUBLE", "qty": "INT"}


def project(models: int, columns: int, seed: int = 7) -> list[tuple[str, list[str], str]]:
    """Models in topological order, ten layers deep: name, parents, query."""
    rng = random.Random(seed)
    extra = [f"c{i}" for i in range(columns - len(CORE))]
    listed = ", ".join([*CORE, *extra])
    made: list[tuple[str, list[str], str]] = []
    layer = max(1, models // 10)
    for i in range(models):
        name = f"m.model_{i:05d}"
        below = [n for n, _, _ in made[: i - i % layer][-3 * layer :]]
        if not below:
            values = ", ".join(f"x.{c} + {i} AS {c}" for c in extra)
            query = (
                f"SELECT x.id, x.event_date, x.grp, x.amount, x.qty, {values} FROM raw.t{i} AS x"
            )
            made.append((name, [f"raw.t{i}"], query))
            continue
        one, two = rng.choice(below), rng.choice(below)
        shape = rng.choice(["join", "aggregate", "window"])
        a, b, c = rng.randint(1, 50), rng.randint(1, 9), rng.randint(100, 900)
        if shape == "join":
            values = ",\n  ".join(f"COALESCE(a.{x}, 0) + {a} AS {x}" for x in extra)
            query = f"""WITH a AS (
  SELECT {listed} FROM {one} AS x WHERE x.amount > -{c} AND x.event_date BETWEEN @start_ds AND
    @end_ds
), b AS (
  SELECT y.id, y.event_date, MAX(y.amount) AS amount FROM {two} AS y GROUP BY y.id, y.event_date
)
SELECT a.id, a.event_date, a.grp, a.amount + COALESCE(b.amount, 0) AS amount, a.qty, {values}
FROM a LEFT JOIN b ON a.id = b.id AND a.event_date = b.event_date"""
        elif shape == "aggregate":
            values = ",\n  ".join(f"SUM(u.{x}) AS {x}" for x in extra)
            query = f"""WITH u AS (
  SELECT {listed} FROM {one} WHERE qty >= 0
  UNION ALL
  SELECT {listed} FROM {two} WHERE qty > {b}
)
SELECT u.id, u.event_date, u.grp, SUM(u.amount) AS amount, MAX(u.qty) AS qty, {values}
FROM u GROUP BY u.id, u.event_date, u.grp HAVING COUNT(*) < {c}"""
        else:
            values = ",\n  ".join(
                f"CASE WHEN x.qty > {b} THEN x.{v} ELSE 0 END AS {v}" for v in extra
            )
            query = f"""SELECT x.id, x.event_date, x.grp,
  SUM(x.amount) OVER (PARTITION BY x.grp ORDER BY x.event_date) AS amount,
  ROW_NUMBER() OVER (PARTITION BY x.grp ORDER BY x.amount, x.id) AS qty, {values}
FROM {one} AS x JOIN (SELECT DISTINCT id FROM {two}) AS y ON x.id = y.id"""
        made.append((name, [one, two], query))
    return made


def time_project(models: int, columns: int) -> None:
    """Versions of a whole project, each model's from its parents'."""
    definitions = project(models, columns)
    start = time.process_time()
    schema: dict[str, dict[str, str]] = {}
    versions: dict[str, SemanticVersion] = {}
    opaque = 0
    extra = {f"c{i}": "INT" for i in range(columns - len(CORE))}
    for name, parents, query in definitions:
        if parents[0].startswith("raw."):
            schema[parents[0]] = {**CORE, **extra}
        found = analyze(query, schema, parents=versions)
        schema[name] = found.output_types
        versions[name] = found.version
        opaque += found.version.opaque is not None
    spent = time.process_time() - start
    print(f"{models} models x {columns} columns: {spent:.2f} s, {spent / models * 1e3:.2f} ms each")
    print(f"opaque: {opaque}; from process start: {time.process_time():.2f} s of CPU")


def time_queries(folder: Path | None) -> None:
    """Mean time of single queries."""
    schema: dict[str, dict[str, str]] = {}
    if folder is None:
        from vde_dagster_tests.semantics.corpus import QUERIES, SCHEMA

        schema, queries = SCHEMA, dict(QUERIES)
    else:
        import yaml

        if (folder / "schema.yaml").exists():
            schema = yaml.safe_load((folder / "schema.yaml").read_text())
        queries = {p.name: p.read_text() for p in sorted(folder.glob("*.sql"))}
    for query in queries.values():
        analyze(query, schema)
    start, rounds, opaque = time.process_time(), 5, []
    for _ in range(rounds):
        opaque = [n for n, q in queries.items() if analyze(q, schema).version.opaque]
    spent = (time.process_time() - start) / rounds / len(queries)
    print(f"{len(queries)} queries: {spent * 1e3:.2f} ms each; opaque: {opaque}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    print(f"import: {time.process_time() - START:.2f} s")
    time_project(args.models, args.columns)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory: {peak:.0f} MB")
    time_queries(args.folder)


if __name__ == "__main__":
    main()
