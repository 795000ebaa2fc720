"""Runs the query at the cursor: a common table expression with its inputs, or a model.

Queries read the environment's tables and write nothing. They run on a separate thread and
workspace, so that requests about words do not wait for Spark.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from vde_dagster.base.json_values import text_value
from vde_dagster.base.texts import count
from vde_dagster.errors import UsageError
from vde_dagster.execution.published_version import require_environment
from vde_dagster.execution.render_model import EvaluatedRows
from vde_dagster.execution.workspace import Workspace
from vde_dagster.programs.editor.positions import split_lines
from vde_dagster.programs.editor.reading import Reading
from vde_dagster.programs.editor.session import EditorMemo
from vde_dagster.programs.editor.words.ctes import Cte, ctes, select_cte
from vde_dagster.project.model import Model
from vde_dagster.sql.edits import find_place

MOST_ROWS = 100


class RunnableQuery(NamedTuple):
    """A query that can run alone: the whole query of a model, or one CTE with its inputs.

    Args:
        query: None for the whole query of the model.
    """

    model: Model
    title: str
    query: str | None = None


def find_runnable_queries(reading: Reading, path: str) -> list[tuple[int, RunnableQuery]]:
    """Return the queries of a file that can run, each with the offset of its start."""
    found: list[tuple[int, RunnableQuery]] = []
    if path in reading.broken:
        return []
    lines = split_lines(reading.text(path))
    for model in reading.models_in(path):
        if model.kind.is_read and (model.query is not None or model.python is not None):
            found.append(
                (lines.token_span(model.location)[0], RunnableQuery(model, str(model.name)))
            )
        if model.query is not None and model.origins:
            for one in ctes(model.query):
                place = find_place(model.origins, one.start)
                if place >= 0:
                    query = select_cte(model.query, one)
                    found.append(
                        (place, RunnableQuery(model, f"{one.name} of {model.name}", query))
                    )
    return found


def query_at_cursor(reading: Reading, path: str, offset: int) -> RunnableQuery:
    """Return the query at a cursor: the innermost common table expression, or else the model.

    Raises:
        UsageError: The file has no query, or cannot be read.
    """
    if path in reading.broken:
        raise UsageError("the file has a mistake, so it cannot be run", hint="correct it")
    models = [m for m in reading.models_in(path) if m.query is not None or m.python is not None]
    lines = split_lines(reading.text(path))
    before = [m for m in models if lines.token_span(m.location)[0] <= offset] or models[:1]
    if not before:
        raise UsageError("the cursor is not in a query", hint="run a model's query, or part of it")
    model = before[-1]
    inside: list[Cte] = []
    if model.query is not None and model.origins:
        for one in ctes(model.query):
            start, last = (find_place(model.origins, at) for at in (one.start, one.end - 1))
            if 0 <= start <= offset <= last + 1:
                inside.append(one)
    if not inside:
        return RunnableQuery(model, str(model.name))
    chosen = inside[-1]
    return RunnableQuery(
        model, f"{chosen.name} of {model.name}", select_cte(model.query or "", chosen)
    )


class QueryRunner:
    """Runs queries for the editor, on a separate Spark session.

    Only one thread at a time may run a query. Any thread may interrupt it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def _workspace(self) -> Workspace:
        return Workspace.open(self.root)

    def run(self, reading: Reading, environment: str, what: RunnableQuery, limit: int) -> str:
        """Run a query on the tables of an environment, and return its rows as a Markdown table.

        Raises:
            VdeError: A table of the query does not exist, or Spark refuses the query.
        """
        settings = reading.project.settings
        memo = EditorMemo(settings.work_dir / "cache" / "snapshots")
        self._workspace.use_project(reading.project, memo)
        if not self._workspace.has_state:
            raise UsageError(
                f"{environment} publishes no tables yet", hint=f"vde apply {environment}"
            )
        shown = require_environment(self._workspace.store, environment)
        found = self._workspace.models.evaluate(
            str(what.model.name), shown, limit=limit, query=what.query
        )
        return _rows_as_markdown(what, environment, found, limit)

    def interrupt(self) -> None:
        if "_workspace" in self.__dict__:
            engine = self._workspace.started_engine
            if engine is not None:
                engine.interrupt()

    def close(self) -> None:
        if "_workspace" in self.__dict__:
            self._workspace.close()


def _rows_as_markdown(
    what: RunnableQuery, environment: str, found: EvaluatedRows, limit: int
) -> str:
    rows = [[_escape_cell(text_value(value)) for value in row] for row in found.rows]
    table = [[_escape_cell(name) for name, _ in found.columns], ["---"] * len(found.columns), *rows]
    notes = [f"{count(len(rows), 'row')} of `{environment}`"]
    if len(rows) == limit:
        notes.append("there may be more")
    if what.model.kind.by_intervals:
        notes.append(f"of the interval {found.interval}")
    if found.left_out:
        notes.append(f"not run: {count(found.left_out, 'statement')} before the query")
    lines = [f"| {' | '.join(row)} |" for row in table]
    return "\n".join([f"# {what.title}", "", *lines, "", "; ".join(notes), ""])


def _escape_cell(text: str) -> str:
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").split()) or " "
