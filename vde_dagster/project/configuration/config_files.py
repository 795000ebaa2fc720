"""Search for SQLMesh's configuration files; the folder `sqlmesh` converts their content."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vde_dagster.base.failures import Problem
from vde_dagster.base.texts import count
from vde_dagster.errors import SourceLocation
from vde_dagster.project.python.watching import Seen
from vde_dagster.project.settings import Settings


@dataclass(frozen=True, slots=True)
class MergedSettings:
    """Settings from SQLMesh's configuration file, overridden key by key by `pyproject.toml`.

    Args:
        path: The configuration file, relative to the project's folder.
        table: Keys and values of `[tool.vde]`.
        places: Places of the values in the configuration file, by dotted name.
        seen: Files and environment variables that the settings depend on.
    """

    path: Path
    table: dict[str, Any]
    places: Mapping[str, SourceLocation]
    warnings: tuple[str, ...]
    seen: Seen


CONFIG_FILES = ("config.py", "config.yml", "config.yaml", "sqlmesh.yml", "sqlmesh.yaml")
DOTENV = ".env"
ENV_PREFIX = "SQLMESH__"
"""Prefix of environment variables that set keys: `SQLMESH__MODEL_DEFAULTS__DIALECT=duckdb`."""


def config_files(root: Path) -> list[str]:
    """Return the names of SQLMesh's configuration files in a folder, such as `config.yaml`."""
    return [name for name in CONFIG_FILES if os.path.isfile(root / name)]


def load_dotenv(root: Path) -> None:
    """Load the file `.env` of a SQLMesh project into the process's environment variables."""
    if os.path.isfile(root / DOTENV) and config_files(root):
        from dotenv import load_dotenv as load

        load(root / DOTENV, override=True)


def sqlmesh_variables() -> list[str]:
    """Return the names of environment variables `SQLMESH__…`, which set configuration keys."""
    return sorted(name for name in os.environ if name.upper().startswith(ENV_PREFIX))


def config_warnings(settings: Settings) -> tuple[Problem, ...]:
    """Return warnings about configuration keys, and about metrics in SQL files."""
    location = SourceLocation(Path(settings.config_file))
    hint = "run `vde help sqlmesh` for the meaning of each key"
    found = [Problem(text, hint, location, False) for text in settings.config_warnings]
    files = sorted((settings.root / "metrics").glob("**/*.sql")) if settings.config_file else []
    if files:
        message = f"metrics are not read ({count(len(files), 'file')} in metrics/)"
        location = SourceLocation(files[0].relative_to(settings.root))
        hint = "write them in YAML (`vde help metrics`), or as models"
        found.append(Problem(message, hint, location, False))
    return tuple(found)
