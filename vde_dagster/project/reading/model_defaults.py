"""Setting `model_defaults`: default properties of models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vde_dagster.base.texts import suggest
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.kinds import View
from vde_dagster.project.macros.scope import MacroScope
from vde_dagster.project.macros.variables import KIND_NAME
from vde_dagster.project.properties.header import Header, parse_header, property_text
from vde_dagster.project.properties.header_macros import expanded_header, written_kind
from vde_dagster.project.properties.model_properties import (
    OF_KINDS,
    PROPERTIES,
    STATEMENTS,
    read_model_properties,
)
from vde_dagster.project.property_value import Value
from vde_dagster.project.reading.audits import read_call
from vde_dagster.project.settings import PYPROJECT, Settings
from vde_dagster.sql.scanner import SourceText, scan


@dataclass(frozen=True, slots=True)
class _SettingText(SourceText):
    """Text of a setting, for errors with its place in the settings' file."""

    root: Path

    def location(self, offset: int) -> SourceLocation:
        """Find the line at an offset of this text, and return its place in the settings' file.

        If the line occurs several times in the file, or never, the place has no line number.
        """
        begin = self.text.rfind("\n", 0, offset) + 1
        words = self.text[begin:].partition("\n")[0].strip()
        try:
            lines = (self.root / self.path).read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            lines = []
        found = [number for number, line in enumerate(lines, start=1) if words and words in line]
        return SourceLocation(self.path, found[0] if len(found) == 1 else None)


def names_kinds(settings: Settings) -> bool:
    """Return whether a default property uses `@model_kind_name`, the kind of the model."""
    given = {key: value for key, value in settings.model_defaults.items() if key in PROPERTIES}
    return KIND_NAME in json.dumps(given, default=str).lower()


def default_properties(
    settings: Settings, scope: MacroScope, header: Header | None = None
) -> Mapping[str, Value]:
    """Return the setting `model_defaults` as properties of a header."""
    given = [
        f"{key} {property_text(key, value, macros=True)}"
        for key, value in settings.model_defaults.items()
        if key in PROPERTIES
    ]
    if not given:
        return {}
    source = _SettingText(_settings_file(settings), f"MODEL ({', '.join(given)})", settings.root)
    defaults = parse_header(source, list(scan(source)))
    kind = written_kind(defaults.properties, f"'{View().name}'")
    if header is not None:
        kind = written_kind(header.properties, kind.get(KIND_NAME))
    # The last value wins: the model's kind overrides the default kind.
    return expanded_header(defaults, scope, kind).properties


def default_statements(settings: Settings, key: str) -> list[SourceText]:
    """Return the statements that the settings add to every model, each as a separate text."""
    given = settings.model_defaults.get(key) or ()
    listed = [given] if isinstance(given, str) else given
    return [setting_text(settings, str(text)) for text in listed]


def setting_text(settings: Settings, statement: str) -> SourceText:
    return _SettingText(_settings_file(settings), statement.rstrip().rstrip(";"), settings.root)


def default_mistakes(settings: Settings) -> list[tuple[str, ProjectError]]:
    """Return (property, error) for each invalid default property of models."""
    found = []
    known = (*PROPERTIES, *STATEMENTS, "formatting")
    for key, value in settings.model_defaults.items():
        if key not in known:
            hint = suggest(key, known, "defaults")
            found.append(
                (key, ProjectError(f"'model_defaults' has the unknown property '{key}'", hint=hint))
            )
        elif key in STATEMENTS:
            listed = value if isinstance(value, list) else [value]
            if not all(isinstance(one, str) for one in listed):
                message = f"setting 'model_defaults.{key}' is not a list of statements"
                found.append((key, ProjectError(message, hint="write a list of strings")))
        elif "@" not in json.dumps(value, default=str):
            try:
                text = f"{key} {property_text(key, value, macros=True)}"
                if key == "refresh":
                    text = f"kind FULL ({text})"
                elif key in OF_KINDS:
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


def _settings_file(settings: Settings) -> Path:
    return Path(settings.config_file or PYPROJECT)
