"""Magics: `%vde pin dev@9`, `%%vde dev` and `%%model marts.x`."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from keyword import iskeyword
from pathlib import Path
from typing import Any, NoReturn

from IPython.core.magic import Magics, cell_magic, line_cell_magic, magics_class

from vde_dagster.base.names import ModelName, find_name_flaw
from vde_dagster.base.texts import listed, printable
from vde_dagster.errors import UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.programs.notebook.parameters import insert_values
from vde_dagster.programs.notebook.results import Rows
from vde_dagster.programs.notebook.step_workspace import StepWorkspace
from vde_dagster.programs.notebook.workspace import NotebookWorkspace, require_workspace


class _ArgumentReader(ArgumentParser):
    def read(self, line: str) -> Namespace:
        try:
            return self.parse_args(shlex.split(line))
        except ValueError as error:
            return self.error(f"the arguments cannot be parsed: {error}")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}", hint=self.format_usage().strip())


@magics_class
class VdeMagics(Magics):
    """The magics `%vde`, `%%vde` and `%%model`, which use the notebook's variable `workspace`."""

    @property
    def _variables(self) -> dict[str, Any]:
        assert self.shell is not None
        found: dict[str, Any] = self.shell.user_ns
        return found

    @property
    def _workspace(self) -> NotebookWorkspace | StepWorkspace:
        return require_workspace(self._variables.get("workspace"))

    @line_cell_magic
    def vde(self, line: str, cell: str | None = None) -> Rows | None:
        """Query an environment (`%%vde dev`), or show and move its pins (`%vde pin dev@9`).

        A cell is one query in Spark SQL; its model names refer to the environment as it was when
        the notebook first queried it, or as set by `%vde pin`. `--into NAME` stores the rows in a
        variable, `--limit N` limits them. `:name` is replaced by a variable of the notebook,
        written as a literal: a text, number, date, instant, or a list of them.
        """
        if cell is None:
            self._pins(line)
            return None
        words = _ArgumentReader("%%vde", add_help=False)
        words.add_argument("environment")
        words.add_argument("--into", metavar="NAME")
        words.add_argument("--limit", type=int)
        given = words.read(line)
        if given.into is not None and not _is_variable(given.into):
            words.error(f"--into {given.into!r} is not a valid name of a variable")
        query = insert_values(cell, self._variables)
        rows = self._workspace.ask(given.environment, query, given.limit)
        if given.into is not None:
            self._variables[given.into] = rows
        return rows

    def _pins(self, line: str) -> None:
        words = _ArgumentReader("%vde", add_help=False)
        words.add_argument("action", choices=["pin"])
        words.add_argument("environments", nargs="*")
        workspace = self._workspace
        for environment in words.read(line).environments:
            workspace.pin(environment)
        told = [f"{name}@{version}" for name, version in sorted(workspace.pins.items())]
        print("pinned: " + ", ".join(told) if told else "nothing is pinned yet")

    @cell_magic
    def model(self, line: str, cell: str) -> Plan:
        """Make the cell's query a model: `%%model marts.x --kind FULL`; shows its plan.

        The file is kept only if a plan can be made. `--replace` overwrites it,
        `--environment ENV` selects the environment of the plan (dev).
        """
        words = _ArgumentReader("%%model", add_help=False)
        words.add_argument("name")
        words.add_argument("--kind", default="VIEW")
        words.add_argument("--environment", default="dev")
        words.add_argument("--replace", action="store_true")
        given = words.read(line)
        workspace = self._workspace
        if isinstance(workspace, StepWorkspace):
            words.error(
                "a notebook that runs as a step cannot create models; tag the cell `skip-execution`"
            )
        path, plan = _write_model(
            *(workspace, given.name, given.kind, cell, given.environment), replace=given.replace
        )
        print(f"wrote {path}")
        return plan


def _is_variable(name: str) -> bool:
    return name.isidentifier() and not iskeyword(name)


def _write_model(
    workspace: Workspace,
    name: str,
    kind: str,
    query: str,
    environment: str,
    *,
    replace: bool = False,
) -> tuple[Path, Plan]:
    """Write `schema/name.sql` into the models' folder; return its path and the model's plan.

    Args:
        kind: As in a header, such as `INCREMENTAL_BY_TIME_RANGE (time_column day)`.
        replace: Whether an existing file may be overwritten.

    Raises:
        UsageError: The file or the model exists, or the file has other models or is not SQL.
        ProjectError: The model or a model that reads it has mistakes; all files are restored.
    """
    workspace.reload()
    model = ModelName.parse(name, workspace.settings.default_namespace)
    for part in model:
        flaw = find_name_flaw(part)
        if flaw is not None:
            raise UsageError(
                f"'{printable(part)}' in the name of a model {flaw}",
                hint="use letters, digits and underscores",
            )
    path = Path(workspace.settings.models_dir, model.namespace, f"{model.name}.sql")
    text = f"MODEL (\n  name {model},\n  kind {kind}\n);\n\n{query.strip().rstrip(';')}\n"
    there = workspace.project.models.get(model)
    if there is not None:
        path = there.location.path
    if not replace and (there is not None or (workspace.root / path).exists()):
        raise UsageError(
            f"{model} already exists, in {path}",
            hint="give the model another name, or pass --replace",
        )
    others = [
        one.name
        for one in workspace.project.models.values()
        if one.location.path == path and one.name != model
    ]
    if others or path.suffix != ".sql":
        what = f"{path}, which also has {listed(others)}" if others else f"{path}, not a SQL file"
        raise UsageError(f"{model} would replace {what}", hint=f"edit {path} by hand")
    file = workspace.root / path
    before = file.read_bytes() if file.exists() else None
    made = [folder for folder in file.parents if not folder.exists()]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        workspace.reload()
        return path, workspace.plans.make(environment, save=False)
    except BaseException:
        if before is not None:
            file.write_bytes(before)
        else:
            file.unlink(missing_ok=True)
            with suppress(OSError):
                for folder in made:
                    folder.rmdir()
        workspace.reload()
        raise
