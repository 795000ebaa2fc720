"""Running the query at the cursor: a common table expression with its inputs, or a model.

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
from vde_dagster.execution.plans.render_model import EvaluatedRows
from vde_dagster.execution.published_version import require_environment
from vde_dagster.execution.workspace import Workspace
from vde_dagster.programs.editor.desk import EditorMemo
from vde_dagster.programs.editor.positions import split_lines
from vde_dagster.programs.editor.reading import Reading
from vde_dagster.programs.editor.words.ctes import Cte, ctes, up_to
from vde_dagster.project.model import Model
from vde_dagster.sql.edits import find_place

MOST_ROWS = 100


class Runnable(NamedTuple):
    """A query that can run alone.

    Args:
        query: None for the whole query of the model.
    """

    model: Model
    title: str
    query: str | None = None


def runnable(reading: Reading, path: str) -> list[tuple[int, Runnable]]:
    """Return the runnable queries of a file, with the offsets where each begins."""
    found: list[tuple[int, Runnable]] = []
    if path in reading.broken:
        return []
    lines = split_lines(reading.text(path))
    for model in reading.models_in(path):
        if model.kind.is_read and (model.query is not None or model.python is not None):
            found.append((lines.token(model.location)[0], Runnable(model, str(model.name))))
        if model.query is not None and model.origins:
            for one in ctes(model.query):
                place = find_place(model.origins, one.start)
                if place >= 0:
                    query = up_to(model.query, one)
                    found.append((place, Runnable(model, f"{one.name} of {model.name}", query)))
    return found


def at_cursor(reading: Reading, path: str, offset: int) -> Runnable:
    """Return the query at a cursor: the innermost common table expression, or else the model.

    Raises:
        UsageError: The cursor is not in a query, or the file cannot be read.
    """
    if path in reading.broken:
        raise UsageError("the file has a mistake, so it cannot be run", hint="correct it")
    models = [m for m in reading.models_in(path) if m.query is not None or m.python is not None]
    lines = split_lines(reading.text(path))
    before = [m for m in models if lines.token(m.location)[0] <= offset] or models[:1]
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
        return Runnable(model, str(model.name))
    chosen = inside[-1]
    return Runnable(model, f"{chosen.name} of {model.name}", up_to(model.query or "", chosen))


class Runner:
    """Runs queries for the editor.

    Only one thread at a time may run a query. Any thread may interrupt it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def _workspace(self) -> Workspace:
        return Workspace.open(self.root)

    def run(self, reading: Reading, environment: str, what: Runnable, limit: int) -> str:
        """Return a query's rows as a Markdown table.

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
        return _table(what, environment, found, limit)

    def interrupt(self) -> None:
        """Stop the running query."""
        if "_workspace" in self.__dict__:
            engine = self._workspace.started_engine
            if engine is not None:
                engine.interrupt()

    def close(self) -> None:
        """End the session, and close the state."""
        if "_workspace" in self.__dict__:
            self._workspace.close()


def _table(what: Runnable, environment: str, found: EvaluatedRows, limit: int) -> str:
    rows = [[_cell(text_value(value)) for value in row] for row in found.rows]
    table = [[_cell(name) for name, _ in found.columns], ["---"] * len(found.columns), *rows]
    told = [f"{count(len(rows), 'row')} of `{environment}`"]
    if len(rows) == limit:
        told.append("there may be more")
    if what.model.kind.by_intervals:
        told.append(f"of the interval {found.interval}")
    if found.left_out:
        told.append(f"not run: {count(found.left_out, 'statement')} before the query")
    lines = [f"| {' | '.join(row)} |" for row in table]
    return "\n".join([f"# {what.title}", "", *lines, "", "; ".join(told), ""])


def _cell(text: str) -> str:
    """Escape a text for a cell of a Markdown table."""
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").split()) or " "
