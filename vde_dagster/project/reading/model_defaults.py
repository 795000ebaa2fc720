"""The setting `model_defaults`: properties of models that do not give them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vde_dagster.base.texts import suggest
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.kinds import View
from vde_dagster.project.macros.expansion import MacroScope
from vde_dagster.project.macros.variables import KIND_NAME
from vde_dagster.project.properties.header import Header, Value, parse_header, property_text
from vde_dagster.project.properties.header_macros import expanded_header, written_kind
from vde_dagster.project.properties.model_properties import (
    OF_KINDS,
    PROPERTIES,
    STATEMENTS,
    read_model_properties,
)
from vde_dagster.project.reading.audits import read_call
from vde_dagster.project.settings import PYPROJECT, Settings
from vde_dagster.sql.scanner import SourceText, scan


@dataclass(frozen=True, slots=True)
class _Setting(SourceText):
    """Text made of a setting: its places are those of the settings' file.

    Args:
        root: The project's folder.
    """

    root: Path

    def location(self, offset: int) -> SourceLocation:
        """Return the line of the file that has the words at an offset, where only one has."""
        begin = self.text.rfind("\n", 0, offset) + 1
        words = self.text[begin:].partition("\n")[0].strip()
        try:
            lines = (self.root / self.path).read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            lines = []
        found = [number for number, line in enumerate(lines, start=1) if words and words in line]
        return SourceLocation(self.path, found[0] if len(found) == 1 else None)


def names_kinds(settings: Settings) -> bool:
    """Say whether the defaults are others for models of other kinds."""
    given = {key: value for key, value in settings.model_defaults.items() if key in PROPERTIES}
    return KIND_NAME in json.dumps(given, default=str).lower()


def default_properties(
    settings: Settings, scope: MacroScope, header: Header | None = None
) -> Mapping[str, Value]:
    """Return the defaults of a header's properties, as if they stood in one.

    Args:
        settings: The project's settings.
        scope: Macros and variables that they may have.
        header: The header that they are for; it says the kind, where it has one.

    Raises:
        ProjectError: One cannot be read.
    """
    given = [
        f"{key} {property_text(key, value, macros=True)}"
        for key, value in settings.model_defaults.items()
        if key in PROPERTIES
    ]
    if not given:
        return {}
    source = _Setting(Path(_file(settings)), f"MODEL ({', '.join(given)})", settings.root)
    defaults = parse_header(source, list(scan(source)))
    kind = written_kind(defaults.properties, f"'{View().name}'")
    if header is not None:
        kind = written_kind(header.properties, kind.get(KIND_NAME))
    # What is given last wins: the kind that is meant, and not the one that is the default.
    return expanded_header(defaults, scope, kind).properties


def default_statements(settings: Settings, key: str) -> list[SourceText]:
    """Return the statements that run for every model, each as a text of its own."""
    given = settings.model_defaults.get(key) or ()
    listed = [given] if isinstance(given, str) else given
    return [setting_text(settings, str(text)) for text in listed]


def setting_text(settings: Settings, statement: str) -> SourceText:
    """Return a statement of the settings as a text of their file."""
    return _Setting(Path(_file(settings)), statement.rstrip().rstrip(";"), settings.root)


def default_mistakes(settings: Settings) -> list[tuple[str, ProjectError]]:
    """Return the mistake in each default, as a model without properties would find it."""
    found = []
    known = (*PROPERTIES, *STATEMENTS)
    for key, value in settings.model_defaults.items():
        if key not in known:
            hint = suggest(key, known, "defaults")
            found.append((key, ProjectError(f"unknown default '{key}' of models", hint=hint)))
        elif key in STATEMENTS:
            if not _is_statements(value):
                message = f"setting 'model_defaults.{key}' is no list of statements"
                found.append((key, ProjectError(message, hint="write a list of texts")))
        elif not _with_macros(value):
            try:
                text = f"{key} {property_text(key, value, macros=True)}"
                if key in OF_KINDS:
                    text = f"kind INCREMENTAL_BY_TIME_RANGE (time_column t, {text})"
                source = SourceText(PYPROJECT, f"MODEL (name a.b, {text})")
                header = parse_header(source, list(scan(source)))
                plain = Settings(settings.root, dialect=settings.dialect)
                read = read_model_properties(header, plain)
                for call in (*read.audits, *read.signals):
                    read_call(call)
            except ProjectError as error:
                message = f"setting 'model_defaults.{key}': {error.message}"
                found.append((key, ProjectError(message, hint=error.hint)))
    return found


def _file(settings: Settings) -> str:
    return settings.config_file or str(PYPROJECT)


def _is_statements(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(one, str) for one in value)
    )


def _with_macros(value: Any) -> bool:
    return "@" in json.dumps(value, default=str)
