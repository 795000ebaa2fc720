"""Built-in audits that compare rows with each other, or compute a figure of all of them."""

from __future__ import annotations

from collections.abc import Callable

from vde_dagster.project.reading.audit_pieces import Items, narrowed_by, outside


def sequential(items: Items) -> str:
    """Find values that are not the one before plus `interval`."""
    (column,), (step,) = items["column"], items["interval"]
    return (
        f"SELECT * FROM (SELECT {column} AS audited_value, "
        f"LAG({column}) OVER (ORDER BY {column}) AS previous "
        f"FROM @this_model{narrowed_by(items)}) AS steps "
        f"WHERE NOT (audited_value = previous + {step})"
    )


def exclusive_ranges(items: Items) -> str:
    """Find ranges that end before they begin, or after the next one begins; ends may touch."""
    (lower,), (upper,) = items["lower_bound_column"], items["upper_bound_column"]
    clause = _partition(items["partition_clause"])
    return (
        "SELECT * FROM (SELECT *, "
        "COALESCE(lower_bound <= upper_bound, FALSE) AS lower_bound_lte_upper_bound, "
        "COALESCE(upper_bound <= next_lower_bound, is_last_record, FALSE) "
        "AS upper_bound_lte_next_lower_bound "
        f"FROM (SELECT {lower} AS lower_bound, {upper} AS upper_bound, "
        f"LEAD({lower}) OVER ({clause}ORDER BY {lower}, {upper}) AS next_lower_bound, "
        f"ROW_NUMBER() OVER ({clause}ORDER BY {lower} DESC, {upper} DESC) = 1 AS is_last_record "
        f"FROM @this_model{narrowed_by(items)}) AS ranges) AS compared "
        "WHERE NOT (lower_bound_lte_upper_bound AND upper_bound_lte_next_lower_bound)"
    )


def _partition(given: tuple[str, ...]) -> str:
    """Return `PARTITION BY a, b `, which may be given in quotes or without its words."""
    text = ", ".join(given).strip()
    if len(text) > 1 and text[0] == text[-1] == "'":
        text = text[1:-1].strip()
    if text.upper() in ("", "FALSE", "NULL"):
        return ""
    words = text.split(None, 2)
    if [word.upper() for word in words[:2]] == ["PARTITION", "BY"]:
        text = words[2]
    return f"PARTITION BY {text} "


def z_score(items: Items) -> str:
    """Find values more than `threshold` standard deviations from the mean of what is looked at."""
    (column,), (threshold,) = items["column"], items["threshold"]
    return (
        f"SELECT *, ({column} - audited_mean) / NULLIF(audited_deviation, 0) AS z_score "
        "FROM @this_model "
        f"CROSS JOIN (SELECT AVG({column}) AS audited_mean, "
        f"STDDEV({column}) AS audited_deviation "
        f"FROM @this_model{narrowed_by(items)}) AS stats "
        f"WHERE ABS(({column} - audited_mean) / NULLIF(audited_deviation, 0)) > {threshold}"
    )


def figure_in_range(function: str) -> Callable[[Items], str]:
    """Find an aggregate of a column outside `min_v` and `max_v`."""

    def build(items: Items) -> str:
        (column,) = items["column"]
        return (
            f"SELECT * FROM (SELECT {function}({column}) AS figure "
            f"FROM @this_model{narrowed_by(items)}) AS figures WHERE {outside(items, 'figure')}"
        )

    return build


def kl_divergence(items: Items) -> str:
    """Find a symmetric Kullback-Leibler divergence of two columns' values above a threshold.

    A value that only one of the columns has adds nothing, as in SQLMesh's query. Engines refuse
    that one for columns of different names, so this is what its documents say.
    """
    (source,), (target,) = items["source_column"], items["target_column"]
    (threshold,) = items["threshold"]

    def shares(column: str, name: str) -> str:
        return (
            f"(SELECT {column} AS value, COUNT(*) / SUM(COUNT(*)) OVER () AS {name} "
            f"FROM @this_model{narrowed_by(items)} GROUP BY {column})"
        )

    return (
        "SELECT * FROM (SELECT SUM((p - q) * LN(p / q)) AS kl_divergence "
        f"FROM {shares(source, 'p')} AS a JOIN {shares(target, 'q')} AS b "
        f"ON a.value = b.value) AS divergence WHERE kl_divergence > {threshold}"
    )


def chi_square(items: Items) -> str:
    """Find a chi-square of two columns that does not say what is claimed of their dependence."""
    (a,), (b,) = items["column_a"], items["column_b"]
    wanted = "<=" if items["dependent"][0].upper() == "FALSE" else ">"
    condition = f" AND ({items['condition'][0]})" if "condition" in items else ""
    return (
        "SELECT * FROM (SELECT "
        "(COUNT(DISTINCT value_a) - 1) * (COUNT(DISTINCT value_b) - 1) AS degrees_of_freedom, "
        "SUM((observed - expected) * (observed - expected) / expected) AS chi_square "
        "FROM (SELECT value_a, value_b, observed, "
        "SUM(observed) OVER (PARTITION BY value_a) * SUM(observed) OVER (PARTITION BY value_b) "
        "/ SUM(observed) OVER () AS expected "
        f"FROM (SELECT {a} AS value_a, {b} AS value_b, COUNT(*) AS observed FROM @this_model "
        f"WHERE {a} IS NOT NULL AND {b} IS NOT NULL{condition} GROUP BY {a}, {b}) AS cells"
        ") AS tested) AS figures "
        f"WHERE NOT (chi_square {wanted} {items['critical_value'][0]})"
    )
