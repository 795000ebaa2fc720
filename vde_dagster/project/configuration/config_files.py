"""The SQLMesh configuration file of a project, found and read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.configuration.config_values import WrittenConfig
from vde_dagster.project.files import decoded

CONFIG_FILES = ("config.py", "config.yml", "config.yaml", "sqlmesh.yml", "sqlmesh.yaml")
DOTENV = ".env"
ENV_PREFIX = "SQLMESH__"
"""How environment variables begin that set keys: `SQLMESH__MODEL_DEFAULTS__DIALECT=duckdb`."""


def config_files(root: Path) -> list[str]:
    """Return the names of the configuration files in a folder."""
    return [name for name in CONFIG_FILES if os.path.isfile(root / name)]


def load_dotenv(root: Path) -> None:
    """Put what `.env` of a SQLMesh project says into the environment, where it wins, as there."""
    if os.path.isfile(root / DOTENV) and config_files(root):
        from dotenv import load_dotenv as load

        load(root / DOTENV, override=True)


def variables_that_set() -> list[str]:
    """Return the names of the environment variables that set keys."""
    return sorted(name for name in os.environ if name.upper().startswith(ENV_PREFIX))


def read_config(root: Path) -> WrittenConfig | None:
    """Read the configuration file of a folder, a person's own, and the variables that add to it.

    Returns:
        What is written; None where there is no file.

    Raises:
        ProjectError: There are two of them, or one cannot be read.
    """
    names = config_files(root)
    if not names:
        return None
    if len(names) > 1:
        raise ProjectError(
            f"there are {len(names)} configuration files: {', '.join(names)}",
            hint="keep one of them",
            location=SourceLocation(Path(names[1])),
        )
    from vde_dagster.project.configuration.formats import (
        personal_environment,
        personal_files,
        read_personal_config,
        with_personal_config,
    )

    personal = read_personal_config()
    with personal_environment(personal):
        written = _read_file(root, Path(names[0]))
    if personal is not None:
        written = with_personal_config(written, personal)
    written.seen.paths.update(map(str, personal_files()))
    _add_environment(written.values)
    return written


def _read_file(root: Path, path: Path) -> WrittenConfig:
    text = decoded(path, (root / path).read_bytes())
    if path.suffix == ".py":
        from vde_dagster.project.configuration.formats import read_python_config

        return read_python_config(root, path, text)
    from vde_dagster.project.configuration.formats import read_yaml_config

    return read_yaml_config(path, text)


def _add_environment(values: dict[str, Any]) -> None:
    for name in variables_that_set():
        *parts, last = name.lower().split("__")[1:]
        table = values
        for part in parts:
            below = table.get(part)
            below = dict(below) if isinstance(below, dict) else {}
            table[part] = below
            table = below
        if last:
            table[last] = os.environ[name]
