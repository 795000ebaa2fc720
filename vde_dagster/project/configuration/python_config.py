"""Configuration in Python: the object `config` of `config.py`."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from vde_dagster.base.suggestions import suggest
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.configuration.written import WrittenConfig
from vde_dagster.project.python.files import parse_python, run_file, where_raised
from vde_dagster.project.python.time_limit import TooSlow, time_limit
from vde_dagster.project.python.watching import watching
from vde_dagster.project.reading.yaml_lines import KeyPath

_SECONDS = 60
_NAME = "config"


def read_python_config(root: Path, path: Path, text: str) -> WrittenConfig:
    """Run `config.py` and read its object `config`.

    It is the project's own code, run as its macros are: what it reads is noted.

    Args:
        root: The project's folder.
        path: The file, relative to it.
        text: Its text.

    Raises:
        ProjectError: It cannot be run, or has no such object; points at the line.
    """
    tree = parse_python(path, text)
    try:
        with time_limit(_SECONDS), watching() as seen:
            module, _, files = run_file(root, path.as_posix(), text)
    except ProjectError as error:
        raise _unknown_key(error) or error from None
    except TooSlow as error:
        raise ProjectError(
            f"the configuration was not read within {_SECONDS} seconds",
            hint="look for a loop without an end",
            location=where_raised(error, path),
        ) from None
    seen.paths.update(str(root / file) for file in files)
    lines = _lines(tree)
    config = getattr(module, _NAME, None)
    if config is None or not hasattr(config, "model_dump"):
        raise ProjectError(
            f"there is no object '{_NAME}' of sqlmesh.core.config.Config",
            hint="write config = Config(model_defaults=ModelDefaultsConfig(dialect='spark'))",
            location=SourceLocation(path, lines.get(())),
        )
    values: dict[str, Any] = config.model_dump(exclude_unset=True)
    return WrittenConfig(path, values, lines, seen)


def _unknown_key(error: ProjectError) -> ProjectError | None:
    """Say in one line what a class of the configuration refused."""
    from pydantic import ValidationError

    refused = error.__cause__
    if not isinstance(refused, ValidationError):
        return None
    one = refused.errors()[0]
    key = str(one["loc"][-1]) if one["loc"] else ""
    if one["type"] != "extra_forbidden":
        message = f"{refused.title}({key}=…): {str(one['msg']).lower()}"
        return ProjectError(message, hint="correct the value", location=error.location)
    from vde_dagster.project.sqlmesh_compat import config

    part = getattr(config, refused.title, None)
    known = list(getattr(part, "model_fields", ()))
    return ProjectError(
        f"{refused.title} has no key '{key}'",
        hint=suggest(key, known, "keys"),
        location=error.location,
    )


def _lines(tree: ast.Module) -> dict[KeyPath, int]:
    """Find the lines of `config = Config(key=…)` and of the keys' keys where they stand there."""
    lines: dict[KeyPath, int] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == _NAME for target in node.targets
        ):
            lines = {(): node.lineno}
            _note(node.value, (), lines)
    return lines


def _note(node: ast.expr, keys: KeyPath, lines: dict[KeyPath, int]) -> None:
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg is not None:
                lines[(*keys, keyword.arg)] = keyword.value.lineno
                _note(keyword.value, (*keys, keyword.arg), lines)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant):
                lines[(*keys, str(key.value))] = key.lineno
                _note(value, (*keys, str(key.value)), lines)
