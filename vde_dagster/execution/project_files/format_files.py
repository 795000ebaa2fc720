"""Formatting of SQL files, if the models and their versions stay the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, SourceLocation, UsageError
from vde_dagster.project.files import decode_text, find_files, write_text
from vde_dagster.project.formatting.files import format_text
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.selection import select
from vde_dagster.project.settings import LayoutOptions, Settings

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.planning.snapshots.snapshot import Snapshot


@dataclass(slots=True)
class FormatResult:
    """Result of formatting SQL files: new texts by path, and skipped files with reasons."""

    looked_at: int
    texts: dict[str, str] = field(default_factory=dict)
    left_alone: list[ProjectError] = field(default_factory=list)

    @property
    def changed(self) -> list[str]:
        """Files that are, or would be, rewritten."""
        return sorted(self.texts)


def format_files(handles: Handles, chosen: Sequence[str], *, check: bool) -> FormatResult:
    """Format the SQL files of models and audits, unless that would change a model's version.

    Args:
        chosen: Files, or patterns of models; all files if empty.
        check: Whether to write nothing.

    Raises:
        UsageError: A pattern matches nothing.
        ProjectError: The project has an error, so that versions cannot be compared.
    """
    paths = _select_files(handles, chosen)
    done = FormatResult(len(paths))
    spare: dict[str, str] = {}
    for path in paths:
        _format_file(handles, path, done, spare)
    if done.texts:
        _skip_changed_meaning(handles, done, spare)
    for path, text in {} if check else done.texts.items():
        write_text(handles.root / path, text)
    return done


def format_query(sql: str, settings: Settings) -> str:
    """Format a Spark SQL query without changing its words, or return it as it is if that fails."""
    spark = replace(settings, dialect="spark", model_defaults={})
    try:
        made = format_text(Path("query.sql"), sql, spark, _keep_case(settings))
    except ProjectError:
        return sql
    return (made or sql).rstrip()


def format_file_text(path: Path, text: str, settings: Settings) -> str | None:
    """Format the text of a SQL file; return None if its property `formatting` is false.

    Raises ProjectError if the file is malformed, or formatting would change words or comments.
    """
    return format_text(path, text, settings, settings.format)


def _keep_case(settings: Settings) -> LayoutOptions:
    return replace(settings.format, keywords=False, normalize_functions="")


def _select_files(handles: Handles, chosen: Sequence[str]) -> list[str]:
    every = find_files(handles.settings).sql
    if not chosen:
        return list(every)
    known, paths, patterns = set(every), set[str](), list[str]()
    for one in chosen:
        path = _relative_path(one, handles.root)
        if path in known:
            paths.add(path)
        elif one.endswith(".sql"):
            raise UsageError(
                f"'{one}' is not a file of models or audits",
                hint="write its path relative to the current folder, or to the project's folder",
            )
        else:
            patterns.append(one)
    if patterns:
        models = handles.project.models
        found = select(models, patterns, handles.changed_files)
        paths |= {models[name].location.path.as_posix() for name in found} & known
    return sorted(paths)


def _relative_path(path: str, root: Path) -> str:
    for folder in (root, Path.cwd()):
        full = (folder / path).resolve()
        if full.is_file() and full.is_relative_to(root):
            return full.relative_to(root).as_posix()
    return path


def _format_file(handles: Handles, path: str, done: FormatResult, spare: dict[str, str]) -> None:
    # `spare` receives a form of the text that keeps the case of keywords and functions.
    settings = handles.settings
    content = (handles.root / path).read_bytes()
    try:
        text = decode_text(Path(path), content)
        made = format_file_text(Path(path), text, settings)
        if made is None or made.encode() == content:
            return
        done.texts[path] = made
        spare[path] = format_text(Path(path), text, settings, _keep_case(settings)) or made
    except ProjectError as error:
        done.left_alone.append(error)
        done.texts.pop(path, None)


def _skip_changed_meaning(handles: Handles, done: FormatResult, spare: Mapping[str, str]) -> None:
    before = handles.snapshots()
    while done.texts:
        wrong = _changed_files(handles, before, done.texts)
        if not wrong:
            return
        for path, reason in wrong.items():
            if done.texts[path] != spare[path]:
                done.texts[path] = spare[path]
            else:
                del done.texts[path]
                location = SourceLocation(Path(path), 1)
                done.left_alone.append(ProjectError(reason, location=location))


def _changed_files(
    handles: Handles, before: Mapping[ModelName, Snapshot], texts: Mapping[str, str]
) -> dict[str, str]:
    contents = {path: text.encode() for path, text in texts.items()}
    try:
        project = load_project(handles.root, instead=contents)
        after = handles.snapshots_of(project.models, warnings=[])
    except ProjectError as error:
        return _reasons_by_file(error, texts)
    wrong: dict[str, str] = {}
    others: set[ModelName] = set()
    for name in (*before, *(name for name in after if name not in before)):
        one, other = before.get(name), after.get(name)
        if (
            one is not None
            and other is not None
            and _meaning_of_snapshot(one) == _meaning_of_snapshot(other)
        ):
            continue
        others.add(name)
        of = one or other
        assert of is not None
        if others.isdisjoint(of.parents):  # Otherwise a parent may be the cause.
            path = of.model.location.path.as_posix()
            paths = [path] if path in texts else _without_models(before, texts)
            wrong |= dict.fromkeys(paths, f"formatting would change the version of {name}")
    return wrong


def _reasons_by_file(error: ProjectError, texts: Mapping[str, str]) -> dict[str, str]:
    found = {
        mistake.location.path.as_posix(): f"it would not load after formatting: {mistake.message}"
        for mistake in error.mistakes
        if mistake.location is not None
    }
    own = {path: reason for path, reason in found.items() if path in texts}
    return own or dict.fromkeys(
        texts, f"after formatting, the project would not load: {error.message}"
    )


def _without_models(before: Mapping[ModelName, Snapshot], texts: Mapping[str, str]) -> list[str]:
    """Return the files that define no model, such as audits; without such files, return all."""
    of_models = {snapshot.model.location.path.as_posix() for snapshot in before.values()}
    return [path for path in texts if path not in of_models] or list(texts)


def _meaning_of_snapshot(snapshot: Snapshot) -> tuple[Any, ...]:
    model = replace(snapshot.model, source="", query=None, location=_NOWHERE)
    own = snapshot.meaning, snapshot.definition_hash, snapshot.layout_hash
    return model, snapshot.columns, (*own, snapshot.version.rows)


_NOWHERE = SourceLocation(Path("file"))
