"""YAML with Jinja in it, as SQLMesh reads configuration and unit tests.

It knows `env_var('NAME', default)`, `user()` and `var('name', default)`.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vde_dagster.errors import ProjectError, SourceLocation

_SIGNS = ("{{", "{%", "{#")


def rendered_yaml(
    path: Path, text: str, variable: Callable[..., Any], asked: set[str], hint: str
) -> str:
    """Render a file's text; one without Jinja stays as it is.

    Args:
        path: The file, relative to the project's folder.
        text: Its text.
        variable: What `var(…)` gives; what it raises is told at the template's line.
        asked: Takes the names of the environment variables that are asked for.
        hint: What the file may ask for.

    Raises:
        ProjectError: The template cannot be read, or fails; points at the line.
    """
    if not any(sign in text for sign in _SIGNS):
        return text
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import SandboxedEnvironment

    def env_var(name: str, default: Any = None) -> Any:
        asked.add(name)
        return os.environ.get(name, default)

    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    known = {"env_var": env_var, "user": getpass.getuser, "var": variable}
    try:
        return environment.from_string(text).render(known)
    except Exception as error:  # What a template calls may raise anything.
        said = error.message if isinstance(error, TemplateError) else None
        raise ProjectError(
            f"Jinja cannot be read: {said or f'{type(error).__name__}: {error}'}",
            hint=hint,
            location=SourceLocation(path, getattr(error, "lineno", None) or _line(error)),
        ) from None


def _line(error: BaseException) -> int | None:
    """Return the template's line that was being rendered."""
    found, frame = None, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == "<template>":
            found = frame.tb_lineno
        frame = frame.tb_next
    return found
