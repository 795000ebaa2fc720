"""Answers to introspective queries of dbt, from production's views and sources, read-only.

dbt's process starts `python -m vde_dagster.plugins.dbt.answers ROOT` for its first question. Each
line of JSON on standard input has a line of JSON as its reply. The first line has the names of the
sources; the reply is `published_state`. Later lines are questions. Spark starts only for SQL.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

from vde_dagster.api.catalogs import TableRef
from vde_dagster.api.errors import StoreError, UsageError, VdeError
from vde_dagster.api.plans import PRODUCTION
from vde_dagster.api.values import ModelName, digest, quote
from vde_dagster.api.workspace import Workspace


def published_state(workspace: Workspace, sources: Iterable[Sequence[str]]) -> str:
    """Hash production's publication id and the sources' metadata; "" without a state store."""
    if not workspace.has_state:
        return ""
    production = workspace.store.environments.get(PRODUCTION)
    refs = sorted((TableRef(*parts) for parts in sources), key=str)
    found = workspace.lakehouse.metadata_locations(refs)
    locations = [found.get(ref, "") for ref in refs]
    return digest(production.publication_id if production else "", *map(str, refs), *locations)


class Answers:
    """Answers dbt's queries about the tables of production and about sources."""

    def __init__(self, workspace: Workspace, sources: Iterable[Sequence[str]]) -> None:
        self._workspace = workspace
        self._sources = {ModelName(*parts) for parts in sources}
        self._production = workspace.store.environments.get(PRODUCTION)

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a question of the kind `rows`, `exists` or `columns`, as JSON.

        Raises:
            VdeError: The question cannot be answered.
        """
        if question["ask"] == "rows":
            columns, rows = self.rows(question["sql"], question.get("limit"))
            return {
                "columns": _describe_columns(columns),
                "rows": [[encode_value(value) for value in r] for r in rows],
            }
        name = ModelName(*question["relation"])
        if question["ask"] == "exists":
            return {"exists": self.exists(name)}
        return {"columns": _describe_columns(self.columns(name))}

    def exists(self, name: ModelName) -> bool:
        """Return whether a model in production or a source in the catalog has this name."""
        if self._production is not None and name in self._production.entries:
            entry = self._production.entries[name]
            if entry.table_id is not None or name not in self._sources:
                return True
        return name in self._sources and self._source_columns(name) is not None

    def columns(self, name: ModelName) -> list[tuple[str, str]]:
        """Return (name, type) of each column of a table.

        Raises:
            UsageError: The table is missing.
        """
        if not self.exists(name):
            raise UsageError(f"production does not have the table {name} yet")
        if name in self._sources:
            return self._source_columns(name) or []
        return self.rows(f"SELECT * FROM {quote(*name)}", 0)[0]

    def rows(
        self, sql: str, limit: int | None
    ) -> tuple[list[tuple[str, str]], Sequence[Sequence[Any]]]:
        """Run a query over production's models and over sources, and return its columns and rows.

        Raises:
            VdeError: The text is not a query, reads a table that is neither a model in production
                nor a source, or fails on Spark.
        """
        shown = set(self._production.entries) if self._production else set[ModelName]()
        sql = sql.strip().rstrip(";")
        if self._production is not None:
            try:
                found = self._workspace.query(PRODUCTION, sql, limit)
            except UsageError:
                pass  # It may read a source, of which production has no view.
            else:
                return list(found.columns), found.rows
        tables = shown | self._sources
        columns, rows = self._workspace.queries.run_on_tables(sql, tables, limit)
        return list(columns), rows

    def _source_columns(self, name: ModelName) -> list[tuple[str, str]] | None:
        found = self._workspace.lakehouse.relation_columns(TableRef(*name))
        return None if found is None else [(column, type_) for column, type_, _ in found]


def _describe_columns(columns: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return columns with types in lower case, except types with elements or fields."""
    return [(name, type_ if "<" in type_ else type_.lower()) for name, type_ in columns]


def encode_value(value: Any) -> Any:
    """Convert a value to JSON; dates, lists and some others become objects: `{"date": "…"}`."""
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, datetime):
        plain = value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo else value
        return {"datetime": plain.isoformat()}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    if isinstance(value, bytes | bytearray):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, dict):
        return {"map": [[encode_value(k), encode_value(v)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [encode_value(one) for one in value]}
    return value


def main(arguments: list[str]) -> int:
    """Answer each line of standard input with a line of standard output, until the input ends."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # Spark and Java print to standard output.
    root, sources = Path(arguments[0]), json.loads(sys.stdin.readline())
    with ExitStack() as opened:
        try:
            workspace = opened.enter_context(Workspace.open(root))
            reply = {"state": published_state(workspace, sources)}
            answers = Answers(workspace, sources) if workspace.has_state else None
        except VdeError as error:
            print(json.dumps({"failed": str(error)}), file=out, flush=True)
            return 1
        print(json.dumps(reply), file=out, flush=True)
        for line in sys.stdin:
            answer: dict[str, Any] = {"refused": "nothing was published yet"}
            if answers is not None:
                try:
                    answer = answers.answer(json.loads(line))
                except StoreError as error:  # The next plan may get an answer.
                    answer = {"failed": str(error)}
                except VdeError as error:
                    answer = {"refused": str(error)}
            print(json.dumps(answer), file=out, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
