"""Configuration in YAML, with Jinja in it: `env_var('NAME', default)`, `user()` and `var(…)`."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import Any

from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.configuration.written import WrittenConfig
from vde_dagster.project.python.watching import Seen
from vde_dagster.project.reading.yaml_lines import load_yaml

_SIGNS = ("{{", "{%", "{#")


def read_yaml_config(path: Path, text: str) -> WrittenConfig:
    """Read a configuration file in YAML.

    Args:
        path: The file, relative to the project's folder.
        text: Its text.

    Raises:
        ProjectError: Jinja or YAML cannot be read, or it is no table; points at the line.
    """
    seen = Seen()
    made = _rendered(path, text, seen)
    document = load_yaml(path, made)
    if document.value is None:
        return WrittenConfig(path, {}, {}, seen)
    if not isinstance(document.value, dict):
        raise document.error((), "the configuration is a table of key: value")
    # Lines are those of the text that Jinja made, which may have others.
    same = made.count("\n") == text.count("\n")
    return WrittenConfig(path, document.value, document.lines if same else {}, seen)


def _rendered(path: Path, text: str, seen: Seen) -> str:
    if not any(sign in text for sign in _SIGNS):
        return text
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import SandboxedEnvironment

    def env_var(name: str, default: Any = None) -> Any:
        seen.variables.add(name)
        return os.environ.get(name, default)

    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    known = {"env_var": env_var, "user": getpass.getuser, "var": lambda name, default=None: default}
    try:
        return environment.from_string(text).render(known)
    except Exception as error:  # What a template calls may raise anything.
        said = (
            error.message
            if isinstance(error, TemplateError)
            else f"{type(error).__name__}: {error}"
        )
        raise ProjectError(
            f"Jinja cannot be read: {said}",
            hint="the configuration knows env_var('NAME', 'default') and user()",
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
