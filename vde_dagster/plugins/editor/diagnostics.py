"""Diagnostics: what a plan would say of the files, at its places."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from lsprotocol.types import Diagnostic, DiagnosticSeverity, DiagnosticTag
from pygls.workspace import PositionCodec

from vde_dagster.base.failures import Problem
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.plugins.editor.positions import lines_of
from vde_dagster.plugins.editor.reading import Reading

SOURCE = "vde"
_UNUSED = ("is never read", "is never used", "nobody reads")


def diagnostics(reading: Reading, codec: PositionCodec) -> dict[str, list[Diagnostic]]:
    """Return the mistakes and warnings of a reading, by file.

    A mistake in no file is one of `pyproject.toml`.
    """
    found: defaultdict[str, list[Diagnostic]] = defaultdict(list)
    for location, message, hint, severity in _said(reading):
        path = location.path.as_posix()
        lines = lines_of(reading.text(path))
        start, end = lines.token(location)
        found[path].append(
            Diagnostic(
                range=lines.range(start, end, codec),
                message=f"{message}\n{hint}" if hint else message,
                severity=severity,
                source=SOURCE,
                tags=[DiagnosticTag.Unnecessary] if message.endswith(_UNUSED) else None,
                data={"hint": hint} if hint else None,
            )
        )
    return dict(found)


_Said = tuple[SourceLocation, str, str | None, DiagnosticSeverity]


def _said(reading: Reading) -> Iterator[_Said]:
    for mistake in reading.mistakes:
        yield _one(mistake, DiagnosticSeverity.Error)
    for warning in reading.warnings:
        yield _one(warning, DiagnosticSeverity.Warning)


def _one(said: ProjectError | Problem, severity: DiagnosticSeverity) -> _Said:
    location = said.location or SourceLocation(Path("pyproject.toml"))
    return location, said.message, said.hint, severity
