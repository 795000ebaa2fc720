"""Macros about the time of day."""

from vde_dagster import macro


@macro()
def minutes_of_day(evaluator, clock):
    """Turn a time as a clock shows it into minutes after midnight: 517 becomes 5 * 60 + 17."""
    return f"CAST(FLOOR({clock} / 100) * 60 + {clock} % 100 AS INT)"
