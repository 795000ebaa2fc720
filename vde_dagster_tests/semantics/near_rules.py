"""The pairs of `fixtures/semantics/near_rules.yaml` as values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vde_dagster_tests.yaml_files import read_yaml

_FILE = Path(__file__).parents[1] / "fixtures" / "semantics" / "near_rules.yaml"


@dataclass(frozen=True, slots=True)
class NearPair:
    """Two queries that Spark answers differently, though a rule nearly makes one of the other.

    Args:
        name: Its section and number.
        mode: The session in which the answers differ: `ansi`, `no ansi` or `ntz`.
    """

    name: str
    one: str
    other: str
    mode: str


_READ: dict[str, Any] = read_yaml(_FILE)
SCHEMA: dict[str, dict[str, str]] = _READ["tables"]
NEAR_PAIRS = [
    NearPair(f"{section} {number}", case["one"], case["other"], case.get("with", "ansi"))
    for section, cases in _READ["pairs"].items()
    for number, case in enumerate(cases, 1)
]
