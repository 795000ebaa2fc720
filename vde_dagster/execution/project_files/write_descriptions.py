"""Writing `docs.yml` files: undescribed objects get an empty entry, existing text stays unchanged.

Lines are only added, so authors' texts, comments, order and layout stay. A library that rewrites
YAML would lose some of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import yaml

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, SourceLocation, UsageError
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.files import DOCS, find_files, write_text
from vde_dagster.project.loading.load import project_sources
from vde_dagster.project.model import Described, Model
from vde_dagster.project.properties.descriptions import read_descriptions
from vde_dagster.project.settings import Settings
from vde_dagster.project.sources.own_files import own_files
from vde_dagster.project.table_names import TableNames
from vde_dagster.project.yaml_text import YamlDocument, load_yaml

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles

HEAD = "# Models and columns, listed by `vde docs write`; texts and comments are yours.\n"


@dataclass(frozen=True, slots=True)
class Orphan:
    """Description of a removed model or column; vde leaves the description in `docs.yml`."""

    name: str
    text: str
    location: SourceLocation


@dataclass(slots=True)
class AddedDescriptions:
    """Entries that were added to `docs.yml` files.

    Args:
        files: New contents of changed files, by path.
        added: Columns and models that get an empty entry, by path.
        orphans: Descriptions of removed objects, by place.
    """

    files: dict[str, str] = field(default_factory=dict)
    added: dict[str, list[str]] = field(default_factory=dict)
    orphans: list[Orphan] = field(default_factory=list)


def write_descriptions(handles: Handles) -> AddedDescriptions:
    """Add empty entries for undescribed models and columns to the project's `docs.yml` files.

    Raises:
        UsageError: The models belong to another tool.
        ProjectError: A file cannot be read, or its form does not allow another line.
    """
    project = handles.project
    if own_files not in project_sources(project.settings):
        raise UsageError(
            "this project belongs to another tool, which has its own descriptions",
            hint="write descriptions in that tool's files, such as dbt's schema.yml",
        )
    made = add_descriptions(project.settings, project.names, handles.snapshots())
    for path, text in made.files.items():
        write_text(project.root / path, text)
    return made


def add_descriptions(
    settings: Settings, names: TableNames, snapshots: Mapping[ModelName, Snapshot]
) -> AddedDescriptions:
    """Return `docs.yml` texts with empty entries for undescribed models and columns.

    Raises ProjectError if a file cannot be read, or its form does not allow another line.
    """
    made = AddedDescriptions()
    texts: dict[str, str] = {}
    known: dict[ModelName, tuple[str, Described]] = {}
    for path in find_files(settings).docs:
        with (settings.root / path).open(encoding="utf-8", newline="") as file:
            texts[path] = file.read()
        for one in read_descriptions(load_yaml(Path(path), texts[path]), names):
            known.setdefault(one.model, (path, one))
            made.orphans += _find_orphans(one, snapshots.get(one.model))
    wanted: dict[str, dict[ModelName, tuple[bool, list[str]]]] = {}
    for name, snapshot in snapshots.items():
        model = snapshot.model
        if model.kind.is_external or not model.kind.is_shown or not _is_own(model, settings):
            continue
        where = known.get(name)
        path = _descriptions_file(model.location.path, texts) if where is None else where[0]
        have = set() if where is None else {column.lower() for column in where[1].columns}
        columns = [
            column.name
            for column in snapshot.columns
            if column.name.lower() not in have and not column.description
        ]
        # For a listed model, a missing `description` is its author's choice.
        itself = where is None and not model.description
        if columns or itself:
            wanted.setdefault(path, {})[name] = (itself, columns)
    for path, models in sorted(wanted.items()):
        made.files[path] = _add_entries(path, texts.get(path, HEAD), names, models)
        made.added[path] = [
            described
            for name, (itself, columns) in models.items()
            for described in (
                *([str(name)] if itself else ()),
                *(f"{name}.{one}" for one in columns),
            )
        ]
    return made


def _is_own(model: Model, settings: Settings) -> bool:
    return model.location.path.as_posix().startswith(settings.models_dir.strip("/") + "/")


def _descriptions_file(model: Path, there: Mapping[str, str]) -> str:
    folder = PurePosixPath(model.as_posix()).parent
    found = (str(folder / name) for name in DOCS)
    return next((path for path in found if path in there), str(folder / DOCS[0]))


def _find_orphans(one: Described, snapshot: Snapshot | None) -> Iterator[Orphan]:
    if snapshot is None:
        yield Orphan(str(one.model), one.description or "", one.location)
        have: set[str] = set()
    else:
        have = {column.name.lower() for column in snapshot.columns}
        if not have:  # The columns are unknown.
            return
    for name, text in one.columns.items():
        if name.lower() not in have:
            yield Orphan(f"{one.model}.{name}", text, one.places[name])


def _add_entries(
    path: str, text: str, names: TableNames, models: Mapping[ModelName, tuple[bool, Sequence[str]]]
) -> str:
    document = load_yaml(Path(path), text)
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines()
    keys = {names.read(str(key)): str(key) for key in document.value or {}}
    added: list[tuple[int, list[str]]] = []
    for name, (itself, columns) in sorted(models.items(), key=lambda item: str(item[0])):
        key = keys.get(name)
        if key is not None:
            added.append(_new_column_lines(document, lines, key, columns))
            continue
        entry = [f"{_yaml_key(str(name))}:"]
        entry += ["  description:"] if itself else []
        entry += _column_lines(columns, 2) if columns else []
        last = len(lines)
        added.append((last, ["", *entry] if last else entry))
    added.sort(key=lambda one: one[0])
    for at, new in reversed(added):  # Later lines first, so that earlier numbers stay valid.
        lines[at:at] = new
    made = end.join(lines) + end
    _check_result(document, Path(path), made, names, models)
    return made


def _column_lines(columns: Sequence[str], indent: int) -> list[str]:
    return [
        f"{' ' * indent}columns:",
        *(f"{' ' * (indent + 2)}{_yaml_key(one)}:" for one in columns),
    ]


def _new_column_lines(
    document: YamlDocument, lines: list[str], key: str, columns: Sequence[str]
) -> tuple[int, list[str]]:
    entry = document.value[key] or {}
    start = document.lines[key,] - 1
    inner = _indent(lines[document.lines[key, next(iter(entry))] - 1]) if entry else 2
    if "columns" not in entry:
        return _block_end(lines, start), _column_lines(columns, inner)
    at = document.lines[key, "columns"] - 1
    described: dict[str, Any] = entry["columns"] or {}
    deep = inner + 2
    if described:
        at = max(document.lines[key, "columns", one] - 1 for one in described)
        deep = _indent(lines[at])
    return _block_end(lines, at), [f"{' ' * deep}{_yaml_key(one)}:" for one in columns]


def _block_end(lines: Sequence[str], start: int) -> int:
    """Return the index after the last line of the block that begins at line `start`."""
    deep = _indent(lines[start])
    end = start + 1
    for at in range(start + 1, len(lines)):
        if lines[at].strip() and _indent(lines[at]) <= deep:
            break
        if lines[at].strip():
            end = at + 1
    return end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _yaml_key(name: str) -> str:
    plain = re.fullmatch(r"[\w.]+", name) and yaml.safe_load(name) == name
    return name if plain else "'" + name.replace("'", "''") + "'"


def _check_result(
    before: YamlDocument,
    path: Path,
    made: str,
    names: TableNames,
    models: Mapping[ModelName, tuple[bool, Sequence[str]]],
) -> None:
    # The check fails for a mapping in braces (`{a: x}`), because no line can be added to it.
    was = {one.model: one for one in read_descriptions(before, names)}
    try:
        now = {one.model: one for one in read_descriptions(load_yaml(path, made), names)}
    except ProjectError:
        now = {}
    for name in (*was, *models):
        described, new = was.get(name), now.get(name)
        columns = dict(described.columns) if described else {}
        columns |= dict.fromkeys(models[name][1], "") if name in models else {}
        description = described.description if described else None
        if new is None or (new.columns, new.description) != (columns, description):
            key = next((key for key in before.value or {} if names.read(str(key)) == name), None)
            raise before.error(
                () if key is None else (key,),
                f"no line can be added to the description of {name}",
                "write each column on a separate line",
            )
