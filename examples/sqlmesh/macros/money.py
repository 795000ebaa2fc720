from sqlmesh import macro


@macro()
def money(evaluator, cents):
    """Convert a column of cents to a decimal amount."""
    return f"CAST({cents} / 100 AS DECIMAL(12, 2))"
