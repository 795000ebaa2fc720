"""The pairs of `fixtures/semantics/spark_optimizer.yaml` as values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vde_dagster_tests.yaml_files import read_yaml

_FILE = Path(__file__).parents[1] / "fixtures" / "semantics" / "spark_optimizer.yaml"
_FORMS = {"value": "SELECT {} AS x FROM t", "where": "SELECT id FROM t WHERE {}", "query": "{}"}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two queries that Spark's optimiser takes for one.

    Args:
        name: Its section and number.
        one: A query.
        other: The same query, simplified.
        apart: Why they have two versions; None where they have one.
    """

    name: str
    one: str
    other: str
    apart: str | None


def _pairs(sections: dict[str, list[dict[str, Any]]]) -> list[Pair]:
    made: list[Pair] = []
    for section, cases in sections.items():
        for number, case in enumerate(cases, 1):
            form = next(form for form in _FORMS if form in case)
            one, other = (_FORMS[form].format(text) for text in case[form])
            name = f"{section}-{number}".replace(" ", "-")
            made.append(Pair(name, one, other, case.get("apart")))
    return made


_READ: dict[str, Any] = read_yaml(_FILE)
SCHEMA: dict[str, dict[str, str]] = _READ["tables"]
PAIRS = _pairs(_READ["pairs"])
