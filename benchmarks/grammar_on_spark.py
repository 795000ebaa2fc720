"""Mutated queries: what Spark's parser refuses, and how much of it a plan finds without Spark.

    python -m benchmarks.grammar_on_spark [--queries 5000] [--seed 1] [--folder FOLDER]

Tokens of real queries are left out, doubled, exchanged or replaced: those of the tests' warehouse,
Spark's documented examples, and with --folder those of a folder of *.sql, such as TPC-DS. The exit
code is 1 if the check refuses a query that Spark takes, or finds less than 98 % of the others.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import islice
from pathlib import Path

from vde_dagster.spark.engine import SparkEngine
from vde_dagster.sql.grammar.spark import _installed_grammar, spark_grammar
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.semantics.corpus import QUERIES
from vde_dagster_tests.semantics.mutated_queries import mutated
from vde_dagster_tests.spark.grammar_search import compare_with_spark, seeded
from vde_dagster_tests.spark.spark_examples import documented_examples


def main() -> int:
    """Compare and print figures; the exit code says whether they are good enough."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--show", action="store_true", help="print what differs")
    options = parser.parse_args()
    files = sorted(options.folder.rglob("*.sql")) if options.folder else []
    with tempfile.TemporaryDirectory() as folder:
        engine = SparkEngine(small_spark(Path(folder)))
        try:
            examples = [example.text for example in documented_examples(engine.session)]
            texts = [path.read_text().strip().rstrip(";") for path in files]
            longer = [*QUERIES.values(), *texts]
            real = [*longer * (1 + len(examples) // len(longer)), *examples]
            mutants = list(islice(mutated(seeded(options.seed), real), options.queries))
            verdicts = compare_with_spark(engine.session, [*longer, *examples, *mutants])
        finally:
            engine.close()
    print(verdicts.figures())
    if options.show:
        print("\n".join([*verdicts.missed, *verdicts.wrong]))
    _installed_grammar.cache_clear()
    began = time.process_time()
    grammar = spark_grammar()
    assert grammar is not None
    read = time.process_time() - began
    began = time.process_time()
    for text in mutants:
        grammar.find_refusal(text)
    took = (time.process_time() - began) / len(mutants)
    print(
        f"CPU: {1000 * read:.0f} ms for reading the grammar, {1000 * took:.2f} ms for a query of "
        f"{sum(map(len, mutants)) // len(mutants)} characters"
    )
    return int(bool(verdicts.wrong) or verdicts.share < 0.98)


if __name__ == "__main__":
    raise SystemExit(main())
