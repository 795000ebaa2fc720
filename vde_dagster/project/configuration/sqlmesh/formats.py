"""Reading of SQLMesh's configuration files: a project's (YAML or Python) and the user's.

The user's file is in `~/.sqlmesh`. As in SQLMesh, tables are merged key by key, and a user's
top-level lists are added to lists of `config.py`.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vde_dagster.base.failures import find_project_line
from vde_dagster.base.texts import suggest
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.configuration.config_files import config_files, sqlmesh_variables
from vde_dagster.project.files import decode_text
from vde_dagster.project.python.files import parse_python, run_file
from vde_dagster.project.python.watching import Seen, TooSlow, watching
from vde_dagster.project.yaml_text import KeyPath, load_rendered_yaml


@dataclass(frozen=True, slots=True)
class RawConfig:
    """A configuration file as read, before its keys are checked.

    Args:
        lines: Line numbers by path of keys, such as `("linter", "rules")`; some may be missing.
        seen: Files and environment variables that were read for the configuration.
        above: The user's configuration, which overrides the project's.
    """

    path: Path
    values: dict[str, Any]
    lines: dict[KeyPath, int] = field(default_factory=dict)
    seen: Seen = field(default_factory=Seen)
    above: RawConfig | None = None

    def location(self, keys: KeyPath) -> SourceLocation:
        """Return the line of a value, or of the smallest mapping around it if that is unknown."""
        if self.above is not None and keys in self.above.lines:
            return self.above.location(keys)
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return SourceLocation(self.path, self.lines.get(keys))

    def error(self, keys: KeyPath, message: str, hint: str | None = None) -> ProjectError:
        """Create an error at the line of a value."""
        return ProjectError(message, hint=hint, location=self.location(keys))


_HINT = "use env_var('NAME', 'default') or user()"


def read_config(root: Path) -> RawConfig | None:
    """Read a folder's SQLMesh configuration, with the user's file and `SQLMESH__…` variables."""
    path = _require_single(list(map(Path, config_files(root))), "configuration files")
    if path is None:
        return None
    personal = _read_personal_config()
    with _personal_environment(personal):
        text = decode_text(path, (root / path).read_bytes())
        if path.suffix == ".py":
            written = _read_python_config(root, path, text)
        else:
            written = _read_yaml_config(path, text)
    if personal is not None:
        own = {key: value for key, value in personal.values.items() if key != _ENVIRONMENT}
        longer = _EXTENDED if path.suffix == ".py" else frozenset()
        values = merge_tables(written.values, own, longer)
        written.seen.add(personal.seen)
        written = replace(written, values=values, above=personal)
    written.seen.paths.update(map(str, _personal_files()))
    _add_environment(written.values)
    return written


def _require_single(paths: Sequence[Path], what: str) -> Path | None:
    if len(paths) > 1:
        raise ProjectError(
            f"there are {len(paths)} {what}: {', '.join(map(str, paths))}",
            hint="keep one of them",
            location=SourceLocation(paths[1]),
        )
    return paths[0] if paths else None


def _add_environment(values: dict[str, Any]) -> None:
    for name in sqlmesh_variables():
        *parts, last = name.lower().split("__")[1:]
        table = values
        for part in parts:
            below = table.get(part)
            table[part] = dict(below) if isinstance(below, dict) else {}
            table = table[part]
        if last:
            table[last] = os.environ[name]


def _read_yaml_config(path: Path, text: str) -> RawConfig:
    seen = Seen()
    document = load_rendered_yaml(
        path, text, lambda name, default=None: default, seen.variables, _HINT
    )
    if document.value is None:
        return RawConfig(path, {}, {}, seen)
    if not isinstance(document.value, dict):
        raise document.error((), "the configuration must be a table of key: value")
    return RawConfig(path, document.value, document.lines, seen)


_NAMES = ("config.yml", "config.yaml", "sqlmesh.yml", "sqlmesh.yaml")
_LISTS = "before_all after_all ignore_patterns notification_targets pinned_environments users"
_EXTENDED = frozenset(_LISTS.split())
_ENVIRONMENT = "env_vars"


def _personal_files() -> list[Path]:
    folder = Path(os.path.expanduser("~"), ".sqlmesh")
    return [folder / name for name in _NAMES]


def _read_personal_config() -> RawConfig | None:
    found = [path for path in _personal_files() if path.is_file()]
    path = _require_single(found, "configuration files in ~/.sqlmesh")
    return (
        _read_yaml_config(path, decode_text(path, path.read_bytes())) if path is not None else None
    )


@contextmanager
def _personal_environment(personal: RawConfig | None) -> Iterator[None]:
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


def merge_tables(
    below: Mapping[str, Any], above: Mapping[str, Any], longer: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Merge nested tables. Values in `above` win; top-level lists in `longer` are concatenated."""
    made = dict(below)
    for key, value in above.items():
        other = made.get(key)
        if isinstance(other, Mapping) and isinstance(value, Mapping):
            made[key] = merge_tables(other, value)
        elif key in longer and isinstance(other, list | tuple | set) and isinstance(value, list):
            made[key] = [*other, *value]
        else:
            made[key] = value
    return made


_SECONDS = 60
_NAME = "config"


def _read_python_config(root: Path, path: Path, text: str) -> RawConfig:
    tree = parse_python(path, text)
    try:
        with TooSlow.after(_SECONDS), watching() as seen:
            module, _, files = run_file(root, path.as_posix(), text)
    except ProjectError as error:
        raise _one_line_error(error) or error from None
    except TooSlow as error:
        raise ProjectError(
            f"the configuration was not read within {_SECONDS} seconds",
            hint="look for an endless loop",
            location=find_project_line(error, path),
        ) from None
    seen.paths.update(str(root / file) for file in files)
    lines = _key_lines(tree)
    config = getattr(module, _NAME, None)
    if config is None or not hasattr(config, "model_dump"):
        raise ProjectError(
            f"the object '{_NAME}' is missing or is not a sqlmesh.core.config.Config",
            hint="write config = Config(model_defaults=ModelDefaultsConfig(dialect='spark'))",
            location=SourceLocation(path, lines.get(())),
        )
    values: dict[str, Any] = config.model_dump(exclude_unset=True)
    return RawConfig(path, values, lines, seen)


def _one_line_error(error: ProjectError) -> ProjectError | None:
    """Return Pydantic's error about a configuration class in one line; None for other errors."""
    from pydantic import ValidationError

    refused = error.__cause__
    if not isinstance(refused, ValidationError):
        return None
    one = refused.errors()[0]
    key = str(one["loc"][-1]) if one["loc"] else ""
    if one["type"] != "extra_forbidden":
        message = f"{refused.title}({key}=…): {str(one['msg']).lower()}"
        return ProjectError(message, hint="correct the value", location=error.location)
    from vde_dagster.project.configuration.sqlmesh import config

    part = getattr(config, refused.title, None)
    known = list(getattr(part, "model_fields", ()))
    return ProjectError(
        f"{refused.title} has no key '{key}'",
        hint=suggest(key, known, "keys"),
        location=error.location,
    )


def _key_lines(tree: ast.Module) -> dict[KeyPath, int]:
    """Return the lines of the keys in `config = Config(key=…)`, including nested keys."""
    lines: dict[KeyPath, int] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == _NAME for target in node.targets
        ):
            lines = {(): node.lineno}
            _collect_lines(node.value, (), lines)
    return lines


def _collect_lines(node: ast.expr, keys: KeyPath, lines: dict[KeyPath, int]) -> None:
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg is not None:
                lines[(*keys, keyword.arg)] = keyword.value.lineno
                _collect_lines(keyword.value, (*keys, keyword.arg), lines)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant):
                lines[(*keys, str(key.value))] = key.lineno
                _collect_lines(value, (*keys, str(key.value)), lines)
