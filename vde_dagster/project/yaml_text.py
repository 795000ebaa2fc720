"""YAML files of a project: values with their lines, and Jinja in YAML.

Jinja supports `env_var('NAME', default)`, `user()` and `var('name', default)`.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import walk_tb
from typing import Any, TypeVar

import yaml

from vde_dagster.base.secrets import names_secret, remember_secret
from vde_dagster.base.texts import suggest
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.sql.scanner import SourceText, nesting_error

_MOST_VALUES = 200_000

KeyPath = tuple[str | int, ...]
Read = TypeVar("Read")

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A parsed YAML file, with the line (from 1) of every value by its path of keys."""

    path: Path
    value: Any
    lines: dict[KeyPath, int]

    def location(self, keys: KeyPath) -> SourceLocation:
        """Return the line of a value, or of the nearest value around it that has a line."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return SourceLocation(self.path, self.lines.get(keys, 1))

    def error(self, keys: KeyPath, message: str, hint: str | None = None) -> ProjectError:
        """Create an error at the line of a value."""
        return ProjectError(message, hint=hint, location=self.location(keys))

    def read(self, keys: KeyPath, value: Any, as_: type[Read], what: str, see: str) -> Read:
        """Convert a value to a `msgspec.Struct`, and report invalid parts at their lines.

        Args:
            what: Name of the value in messages (`a sync`).
            see: Documentation to refer to if the value has an invalid form.

        Raises:
            ProjectError: The value has an invalid form; the error has the invalid part's place.
        """
        import msgspec

        try:
            return msgspec.convert(value, as_)
        except msgspec.ValidationError as error:
            detail = str(error)
            unknown = re.search(r"unknown field `(\w+)`", detail)
            found = unknown or re.search(r"`\$\.(\w+)", detail)
            known: Any = as_
            hint = suggest(unknown[1], known.__struct_fields__) if unknown else f"see {see}"
            keys = (*keys, found[1]) if found else keys
            raise self.error(keys, f"{what} is invalid: {detail}", hint) from None


def load_yaml(path: Path, text: str) -> YamlDocument:
    """Parse a YAML file, and record the line of every value."""
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            lines: dict[KeyPath, int] = {}
            if node is not None:
                _collect_lines(node, (), lines, path)
            value = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except RecursionError:
        raise nesting_error(SourceText(path, text)) from None
    except (ValueError, OverflowError) as error:  # such as February 30
        raise ProjectError(
            f"a value is invalid: {error}",
            hint="put it in quotes, or correct it",
            location=SourceLocation(path),
        ) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        location = SourceLocation(path, mark.line + 1, mark.column + 1) if mark else None
        problem = getattr(error, "problem", None) or str(error)
        raise ProjectError(
            f"this is not valid YAML: {problem}",
            hint="check the indentation",
            location=location or SourceLocation(path),
        ) from error
    return YamlDocument(path, value, lines)


def _collect_lines(node: Any, keys: KeyPath, lines: dict[KeyPath, int], path: Path) -> None:
    lines.setdefault(keys, node.start_mark.line + 1)
    if len(lines) > _MOST_VALUES:
        # A few lines of nested aliases can expand to a billion values.
        raise ProjectError(
            f"the file has more than {_MOST_VALUES} values",
            hint="remove nested aliases (*name)",
            location=SourceLocation(path, node.start_mark.line + 1),
        )
    if isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            below = (*keys, str(key.value))
            if below in lines:
                raise ProjectError(
                    f"'{key.value}' is given twice",
                    hint="remove one of them",
                    location=SourceLocation(path, key.start_mark.line + 1),
                )
            lines[below] = key.start_mark.line + 1
            _collect_lines(child, below, lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            _collect_lines(child, (*keys, index), lines, path)


_SIGNS = ("{{", "{%", "{#")


def load_rendered_yaml(
    path: Path, text: str, variable: Callable[..., Any], asked: set[str], hint: str
) -> YamlDocument:
    """Render a file's Jinja, and parse the result as YAML.

    Errors in values have line 1 if Jinja changed the number of lines.

    Args:
        variable: Returns the value of `var(…)`; its errors are reported at the template's line.
        asked: Collects the names of the environment variables that are used.
        hint: Describes the functions that the file may use.

    Raises:
        ProjectError: The template or the YAML is invalid.
    """
    if not any(sign in text for sign in _SIGNS):
        return load_yaml(path, text)
    from jinja2 import StrictUndefined, TemplateError

    from vde_dagster.project.sandbox import Sandbox

    def env_var(name: str, default: Any = None) -> Any:
        asked.add(name)
        value = os.environ.get(name, default)
        if names_secret(name) and isinstance(value, str):
            remember_secret(value)
        return value

    environment = Sandbox(undefined=StrictUndefined, keep_trailing_newline=True)
    known = {"env_var": env_var, "user": getpass.getuser, "var": variable}
    try:
        made = environment.from_string(text).render(known)
    except Exception as error:  # Functions called by a template may raise anything.
        message = error.message if isinstance(error, TemplateError) else None
        frames = walk_tb(error.__traceback__)
        lines = [line for frame, line in frames if frame.f_code.co_filename == "<template>"]
        line = getattr(error, "lineno", None) or (lines[-1] if lines else None)
        raise ProjectError(
            f"invalid Jinja: {message or f'{type(error).__name__}: {error}'}",
            hint=hint,
            location=SourceLocation(path, line),
        ) from None
    document = load_yaml(path, made)
    return document if made.count("\n") == text.count("\n") else replace(document, lines={})
