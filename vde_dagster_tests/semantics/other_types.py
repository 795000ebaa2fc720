"""The random queries' tables with numbers of other types, and values at the edges of these."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal

Schema = Mapping[str, Mapping[str, str]]

NUMBERS = (
    *("INT", "INT", "BIGINT", "SMALLINT", "DOUBLE", "DOUBLE", "DOUBLE", "FLOAT"),
    *("DECIMAL(6, 2)", "DECIMAL(4, 1)"),
)
_VALUES: dict[str, tuple[object, ...]] = {
    "INT": (-1, 0, 1, 2, 3),
    "BIGINT": (-1, 0, 1, 2, 3, 4294967297),
    "SMALLINT": (-1, 0, 1, 2, 3),
    "DOUBLE": (-1.0, 0.0, -0.0, 1.0, 1.5, 2.0, 0.0, -0.0, math.nan, math.inf, -math.inf),
    "FLOAT": (-1.0, 0.0, -0.0, 1.0, 2.5, 2.0, 0.0, -0.0, math.nan, math.inf),
    "DECIMAL(6, 2)": tuple(map(Decimal, ("-1.00", "0.00", "1.00", "1.50", "2.00", "9999.99"))),
    "DECIMAL(4, 1)": tuple(map(Decimal, ("-1.0", "0.0", "1.0", "1.5", "2.0", "999.9"))),
    "DATE": (date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 31), date(2023, 12, 31)),
    "TIMESTAMP": (
        datetime(2024, 2, 29),
        datetime(2024, 3, 31, 2, 30),
        datetime(2024, 10, 27, 2, 30),
        datetime(2023, 12, 31, 23, 59, 59, 999999),
    ),
}
KINDS = frozenset(_VALUES)
"""Types of which there are values; dates are ends of months, times of day are those that clocks
leave out or show twice."""


def retyped(schema: Schema, rng: random.Random) -> dict[str, dict[str, str]]:
    """Return the tables with a random type for each column of whole numbers."""
    return {
        table: {c: rng.choice(NUMBERS) if kind == "INT" else kind for c, kind in columns.items()}
        for table, columns in schema.items()
    }


def value_of(kind: str, rng: random.Random) -> object:
    """Return a random value of a type of numbers or times; never NULL."""
    return rng.choice(_VALUES[kind])


def literal_of(kind: str, rng: random.Random) -> str:
    """Return such a value as Spark SQL reads it."""
    value = value_of(kind, rng)
    if isinstance(value, float):
        return f"CAST('{value}' AS {kind})".replace("'inf'", "'Infinity'").replace(
            "'-inf'", "'-Infinity'"
        )
    return f"CAST('{value}' AS {kind})"
