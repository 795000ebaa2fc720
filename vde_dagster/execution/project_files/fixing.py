"""Application of fixes: one error's fix, or the fixes of all errors and violations of a project.

A fix applies only if the file still has the text to replace. It is undone if it causes new errors.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName
from vde_dagster.errors import Fix, ProjectError, Replacement, SourceLocation
from vde_dagster.execution.handles import Handles
from vde_dagster.execution.linting.linter import Linter
from vde_dagster.execution.mistakes import all_mistakes
from vde_dagster.planning.checks.unit_tests import find_test_mistakes
from vde_dagster.planning.environments.contracts import find_reader_mistakes
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.files import decode_text, write_text
from vde_dagster.project.loading.loader import Project, load_project
from vde_dagster.sql.edits import Edit, apply_edits
from vde_dagster.sql.scanner import SourceText
from vde_dagster.sql.trees import ParsedQueries

MOST_ROUNDS = 5
"""Maximum number of passes, because one error may hide others."""

Texts = Callable[[str], str]
"""Returns a file's text by its path relative to the project's root."""


def fix_edits(fix: Fix, place: SourceLocation | None, text: Texts) -> dict[str, list[Edit]] | None:
    """Return a fix's text edits by file path, or None if a file lacks the text to replace."""
    found: defaultdict[str, list[Edit]] = defaultdict(list)
    for one in fix.edits:
        at = one.at or place
        stretch = _find_replaced_text(text(at.path.as_posix()), one, at) if at is not None else None
        if at is None or stretch is None:
            return None
        found[at.path.as_posix()].append(Edit(*stretch, one.new))
    return dict(found)


_QUALIFIER = r"(?:(?:\w+|`[^`\n]*`)\s*\.\s*)*@?[`'\"]?"
"""Characters that may precede a name at the place of an error."""


def _find_replaced_text(text: str, one: Replacement, at: SourceLocation) -> tuple[int, int] | None:
    # If the place has no column, the text must occur exactly once in its line.
    start, end = SourceText(at.path, text).stretch(at)
    if not one.old:
        return start, start
    word = rf"({re.escape(one.old)})(?!\w)" if one.old[-1].isalnum() else f"({re.escape(one.old)})"
    if at.column is None:
        behind = re.compile(rf"(?<!\w){word}", re.IGNORECASE)
        there = [found.span(1) for found in behind.finditer(text, start, end)]
        return there[0] if len(there) == 1 else None
    found = re.compile(_QUALIFIER + word, re.IGNORECASE).match(text, start)
    return None if found is None else found.span(1)


@dataclass(slots=True)
class FixResult:
    """Result of fixing a project's files.

    Args:
        texts: New texts by path.
        done: Applied fixes, with the places of their errors.
        left: Fixes that would have caused another error.
    """

    texts: dict[str, str] = field(default_factory=dict)
    done: list[tuple[SourceLocation, Fix]] = field(default_factory=list)
    left: list[tuple[SourceLocation, Fix]] = field(default_factory=list)


def fix_project(
    handles: Handles, rules: Collection[str] = (), among: Collection[ModelName] | None = None
) -> FixResult:
    """Fix all errors and linter violations of a project that have exactly one safe fix.

    Args:
        rules: Rules of the linter, instead of those in the settings.
        among: Models whose violations count; all by default.
    """
    mended = FixResult()
    for _ in range(MOST_ROUNDS):
        project, snapshots, mistakes = _load_project(handles, mended.texts)
        mistakes_and_findings: list[ProjectError | Problem] = list(mistakes)
        if not mistakes:
            mistakes_and_findings += [
                one.problem for one in Linter(project, rules).findings(snapshots, among)
            ]
        chosen = [
            (one.location, one.fixes[0])
            for one in mistakes_and_findings
            if one.location is not None and len(one.fixes) == 1 and one.fixes[0].sure
        ]
        chosen = [one for one in dict.fromkeys(chosen) if one not in mended.left]
        if not _apply_fixes(handles, mended, chosen, mistakes):
            break
    for path, text in mended.texts.items():
        write_text(handles.root / path, text)
    if mended.texts:
        handles.reload()
    return mended


def _load_project(
    handles: Handles, texts: Mapping[str, str]
) -> tuple[Project, Mapping[ModelName, Snapshot], tuple[ProjectError, ...]]:
    parsed = ParsedQueries()
    instead = {path: text.encode() for path, text in texts.items()}
    project = load_project(handles.root, strict=False, parsed=parsed, instead=instead)
    if project.problems:
        return project, {}, all_mistakes(project, parsed).mistakes

    def more(known: Mapping[ModelName, Snapshot]) -> Iterator[ProjectError]:
        yield from find_test_mistakes(project.tests, project.models, known)
        yield from find_reader_mistakes(project.exposures, known, [])

    try:
        return project, handles.snapshots_of(project.models, parsed, [], more), ()
    except ProjectError as error:
        return project, {}, error.mistakes


def _apply_fixes(
    handles: Handles,
    mended: FixResult,
    chosen: list[tuple[SourceLocation, Fix]],
    before: Iterable[ProjectError],
) -> bool:
    """Apply all fixes together. If the result has a new error, apply them one by one."""
    known = {_identity(mistake) for mistake in before}

    def is_right(texts: Mapping[str, str]) -> bool:
        return all(_identity(one) in known for one in _load_project(handles, texts)[2])

    texts, done = _apply_edits(handles, mended.texts, chosen)
    if not done:
        return False
    if not is_right(texts):
        texts, kept = dict(mended.texts), list[tuple[SourceLocation, Fix]]()
        for one in done:
            tried, took = _apply_edits(handles, mended.texts, [*kept, one])
            if len(took) > len(kept) and is_right(tried):
                texts, kept = tried, took
            else:
                mended.left.append(one)
        done = kept
    mended.texts = texts
    mended.done += done
    return bool(done)


def _identity(mistake: ProjectError) -> tuple[str, str]:
    path = mistake.location.path.as_posix() if mistake.location is not None else ""
    return path, mistake.message


def _apply_edits(
    handles: Handles, texts: Mapping[str, str], chosen: Iterable[tuple[SourceLocation, Fix]]
) -> tuple[dict[str, str], list[tuple[SourceLocation, Fix]]]:
    # A fix that overlaps an earlier one is left out.
    def text(path: str) -> str:
        if path in texts:
            return texts[path]
        file = handles.root / path
        return decode_text(Path(path), file.read_bytes()) if file.is_file() else ""

    edits: defaultdict[str, list[Edit]] = defaultdict(list)
    done: list[tuple[SourceLocation, Fix]] = []
    for place, fix in chosen:
        own = fix_edits(fix, place, text)
        if own and not any(
            (one.start < other.end and other.start < one.end) or one.start == other.start
            for path, given in own.items()
            for one in given
            for other in edits[path]
        ):
            done.append((place, fix))
            for path, given in own.items():
                edits[path] += given
    made = {path: apply_edits(text(path), given) for path, given in edits.items() if given}
    return {**texts, **made}, done
