"""The notebook extension `%load_ext vde_dagster`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from vde_dagster.errors import UsageError, VdeError
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.programs.notebook.magics import VdeMagics
from vde_dagster.programs.notebook.results import plan_as_html, plan_as_text
from vde_dagster.programs.notebook.step_workspace import STEP, StepWorkspace
from vde_dagster.programs.notebook.workspace import NotebookWorkspace
from vde_dagster.reports.errors import error_lines

_HANDLERS: WeakKeyDictionary[Any, tuple[Any, Any]] = WeakKeyDictionary()
"""The earlier exception handler of each shell, with the exceptions that it handles."""


def load_ipython_extension(shell: Any) -> None:
    """Register `%vde`, `%%vde` and `%%model`, and set the notebook's variable `workspace`.

    The project is in the notebook's folder, or in a folder above it.

    Raises:
        UsageError: No project was found.
    """
    if isinstance(shell.user_ns.get("workspace"), StepWorkspace):
        return  # A notebook that is a step is set up by its first cell.
    unload_ipython_extension(shell)
    workspace = NotebookWorkspace.open(_find_project(Path.cwd()))
    shell.push({"workspace": workspace})
    shell.register_magics(VdeMagics)
    _HANDLERS[shell] = shell.custom_exceptions, shell.CustomTB
    shell.set_custom_exc((VdeError,), _show_error)
    formatters = shell.display_formatter.formatters
    formatters["text/html"].for_type(Plan, lambda plan: plan_as_html(workspace, plan))
    formatters["text/plain"].for_type(
        Plan, lambda plan, printer, cycle: printer.text(plan_as_text(workspace, plan))
    )


def begin_step(shell: Any) -> None:
    """Set the variable `workspace` and the import path in the kernel of a notebook model."""
    workspace = StepWorkspace(os.environ.pop(STEP))
    sys.path.insert(0, workspace.modules)
    shell.push({"workspace": workspace})
    shell.register_magics(VdeMagics)


def unload_ipython_extension(shell: Any) -> None:
    """Close the workspace, and restore the shell's earlier exception handler."""
    workspace = shell.user_ns.get("workspace")
    if isinstance(workspace, NotebookWorkspace):
        shell.user_ns.pop("workspace")
        workspace.close()
    if shell not in _HANDLERS:
        return
    if VdeError in shell.custom_exceptions:  # Otherwise another extension has replaced it.
        shell.custom_exceptions, shell.CustomTB = _HANDLERS[shell]
    del _HANDLERS[shell]
    for form in ("text/html", "text/plain"):
        shell.display_formatter.formatters[form].pop(Plan, None)
    manager = shell.magics_manager
    manager.registry.pop(VdeMagics.__name__, None)
    for names in manager.magics.values():
        for name in [name for name, one in names.items() if _is_own(one)]:
            del names[name]


def _is_own(magic: Any) -> bool:
    return isinstance(getattr(magic, "__self__", None), VdeMagics)


def _show_error(shell: Any, kind: type, error: VdeError, trace: Any, **how: Any) -> None:
    # A traceback would contain no line of the notebook.
    print("\n".join(error_lines(error)), file=sys.stderr)


def _find_project(folder: Path) -> Path:
    for root in (folder, *folder.parents):
        file = root / "pyproject.toml"
        said = file.read_text(encoding="utf-8") if file.is_file() else ""
        if "[tool.vde" in said or (root / "models").is_dir():
            return root
    raise UsageError(
        f"neither {folder} nor a folder above it has a project",
        hint="start the notebook in a folder of the project; create one with `vde init`",
    )
