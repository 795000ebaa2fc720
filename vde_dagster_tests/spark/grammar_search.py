"""Mutated queries before Spark's parser and before the check that a plan makes of its grammar."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from vde_dagster.sql.grammar.spark import spark_grammar
from vde_dagster_tests.spark.outcomes import FAILURES


@dataclass
class Verdicts:
    """What both said of texts.

    Args:
        accepted: How many Spark takes.
        found: How many Spark refuses and the check, too.
        missed: Those that only Spark refuses, with why.
        wrong: Those that only the check refuses, with where.
    """

    accepted: int = 0
    found: int = 0
    missed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The share of what Spark refuses that the check finds."""
        return self.found / max(1, self.found + len(self.missed))

    def figures(self) -> str:
        """Say it in one line."""
        refused = self.found + len(self.missed)
        return (
            f"{self.accepted + refused} queries, of which Spark refuses {refused}, "
            f"the check {100 * self.share:.2f} % of those; {len(self.wrong)} that Spark takes"
        )


def compare_with_spark(session: Any, texts: Iterable[str]) -> Verdicts:
    """Ask Spark's parser and the grammar about texts."""
    grammar = spark_grammar()
    assert grammar is not None
    parser = session._jsparkSession.sessionState().sqlParser()
    verdicts = Verdicts()
    for text in texts:
        refusal = grammar.find_refusal(text)
        try:
            parser.parseQuery(text)
        except FAILURES as error:
            if refusal is None:
                verdicts.missed.append(f"{text}: {str(error).splitlines()[0][:100]}")
            else:
                verdicts.found += 1
            continue
        verdicts.accepted += 1
        if refusal is not None:
            verdicts.wrong.append(f"{text}: {refusal}")
    return verdicts


def seeded(seed: int) -> random.Random:
    """Return chance that is the same for the same seed, which is printed."""
    print(f"seed {seed}")
    return random.Random(seed)
