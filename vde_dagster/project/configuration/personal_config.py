"""A person's own configuration: `~/.sqlmesh/config.yaml`, which wins over that of a project.

As in SQLMesh: tables are merged key by key, and lists of a project's `config.py` are made longer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.configuration.written import WrittenConfig
from vde_dagster.project.configuration.yaml_config import read_yaml_config
from vde_dagster.project.reading.text_files import decoded

_NAMES = ("config.yml", "config.yaml", "sqlmesh.yml", "sqlmesh.yaml")
_EXTENDED = frozenset({"before_all", "after_all", "ignore_patterns", "pinned_environments"})
_ENVIRONMENT = "env_vars"


def personal_files() -> list[Path]:
    """Return the places where such a file may be."""
    folder = Path(os.path.expanduser("~"), ".sqlmesh")
    return [folder / name for name in _NAMES]


def read_personal_config() -> WrittenConfig | None:
    """Read a person's own configuration.

    Returns:
        What is written; None where there is no file.

    Raises:
        ProjectError: There are two of them, or one cannot be read.
    """
    found = [path for path in personal_files() if path.is_file()]
    if not found:
        return None
    if len(found) > 1:
        raise ProjectError(
            f"there are {len(found)} configuration files of your own: "
            + ", ".join(map(str, found)),
            hint="keep one of them",
            location=SourceLocation(found[1]),
        )
    return read_yaml_config(found[0], decoded(found[0], found[0].read_bytes()))


@contextmanager
def personal_environment(personal: WrittenConfig | None) -> Iterator[None]:
    """Let the environment have the variables of `env_vars` while a project's file is read."""
    given = personal.values.get(_ENVIRONMENT) if personal is not None else None
    variables = given if isinstance(given, Mapping) else {}
    before = {str(name): os.environ.get(str(name)) for name in variables}
    os.environ.update({str(name): str(value) for name, value in variables.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def with_personal_config(written: WrittenConfig, personal: WrittenConfig) -> WrittenConfig:
    """Put a person's own configuration over a project's."""
    own = {key: value for key, value in personal.values.items() if key != _ENVIRONMENT}
    longer = _EXTENDED if written.path.suffix == ".py" else frozenset()
    written.seen.add(personal.seen)
    return WrittenConfig(
        written.path, _over(written.values, own, longer), written.lines, written.seen, personal
    )


def _over(below: Mapping[str, Any], above: Mapping[str, Any], longer: frozenset[str]) -> Any:
    made = dict(below)
    for key, value in above.items():
        other = made.get(key)
        if isinstance(other, Mapping) and isinstance(value, Mapping):
            made[key] = _over(other, value, frozenset())
        elif key in longer and isinstance(other, list | tuple) and isinstance(value, list):
            made[key] = [*other, *value]
        else:
            made[key] = value
    return made
