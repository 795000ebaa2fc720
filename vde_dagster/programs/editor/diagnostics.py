"""Diagnostics: mistakes that a plan would report, at their places."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from lsprotocol.types import Diagnostic, DiagnosticSeverity, DiagnosticTag
from pygls.workspace import PositionCodec

from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.programs.editor.positions import split_lines
from vde_dagster.programs.editor.reading import Reading

SOURCE = "vde"


def diagnostics(reading: Reading, codec: PositionCodec) -> dict[str, list[Diagnostic]]:
    # A mistake outside of files is attached to `pyproject.toml`.
    found: defaultdict[str, list[Diagnostic]] = defaultdict(list)
    for mistake in reading.problems:
        location = mistake.location or SourceLocation(Path("pyproject.toml"))
        path = location.path.as_posix()
        lines = split_lines(reading.text(path))
        start, end = lines.token_span(location)
        error = isinstance(mistake, ProjectError)
        idle = any(not edit.new for fix in mistake.fixes for edit in fix.edits)
        found[path].append(
            Diagnostic(
                range=lines.range(start, end, codec),
                message=f"{mistake.message}\n{mistake.hint}" if mistake.hint else mistake.message,
                severity=DiagnosticSeverity.Error if error else DiagnosticSeverity.Warning,
                source=SOURCE,
                tags=[DiagnosticTag.Unnecessary] if idle else None,
            )
        )
    return dict(found)
