"""A small project with unit tests, and an engine without Spark that answers their queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vde_dagster_tests.execution.fake_workspace import FakeSpark

FILES = {
    "models/raw.sql": "MODEL (name db.raw, kind FULL); SELECT 1 AS n",
    "models/double.sql": """
        MODEL (name db.double, kind FULL);
        SELECT n * 2 AS n FROM db.raw
    """,
    "models/view.sql": "MODEL (name db.view, kind VIEW); SELECT n FROM db.double",
    "tests/test_double.yaml": """
        test_doubles:
          model: db.double
          description: Twice as much
          inputs:
            db.raw:
              rows: [{n: 21}]
          outputs:
            query:
              rows: [{n: 42}]
    """,
}


class AnsweringSpark(FakeSpark):
    """Returns equal rows for what a test expects and for the model's query, or different ones.

    Args:
        right: Whether the models are right.
        rows: How many rows each query returns.
    """

    def __init__(self, right: bool = True, rows: int = 1) -> None:
        super().__init__()
        self.right = right
        self.rows = rows
        self.tested: list[str] = []
        self.before: list[str] = []

    def query(
        self, sql: str, limit: int | None = None, before: Sequence[str] = ()
    ) -> tuple[tuple[tuple[str, str], ...], Sequence[tuple[Any, ...]]]:
        """Answer a query of a unit test."""
        if " AS expected" in sql:
            return (("n", "INT"),), ((42,),) * self.rows
        self.tested.append(sql)
        self.before += before
        return (("n", "INT"),), ((42 if self.right else 41,),) * self.rows
