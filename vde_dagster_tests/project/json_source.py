"""A source that the product does not have: JSON files that define several models each.

A file is `{"models": {"orders": {"kind": "FULL", "query": "SELECT …"}}}`; the schema of its models
is in `warehouse/schema.json`, which they all share. Queries have no escapes, so that places in them
are places in the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from vde_dagster.api.errors import ProjectError, SourceLocation
from vde_dagster.api.kinds import Kind
from vde_dagster.api.models import Model
from vde_dagster.api.sources import Folder, LoadedFile, LoadedModel, TableNames
from vde_dagster.api.sql import SourceText

SHARED = "warehouse/schema.json"


def json_models(folder: Folder) -> JsonModels | None:
    """Take the JSON files of a folder that has a warehouse in it."""
    return JsonModels(folder) if (folder.root / "warehouse").is_dir() else None


class JsonModels:
    """The source; `was_read` lists what it had to read."""

    name = "json"

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._schema = "unknown"
        self.was_read: list[str] = []
        own = folder.settings
        self.names = TableNames(own.catalog, own.default_namespace, {"crm": "crm_lake"})

    @property
    def key(self) -> str:
        return self._folder.hasher.hash(SHARED)

    def files(self) -> Sequence[str]:
        found = (self._folder.root / "warehouse").glob("*.json")
        paths = sorted(path.relative_to(self._folder.root).as_posix() for path in found)
        return [path for path in paths if path != SHARED]

    def other_files(self) -> Sequence[str]:
        return [SHARED]

    def draws_in(self, path: str) -> Sequence[str]:
        return ()

    def prepare(self) -> Sequence[ProjectError]:
        self.was_read.append(SHARED)
        try:
            self._schema = json.loads(self._folder.text(SHARED))
        except ValueError:
            return [ProjectError("no schema", location=SourceLocation(Path(SHARED), 1))]
        return []

    def follows(self, mistake: ProjectError) -> bool:
        return "unknown.ghosts" in mistake.message

    def read(self, path: str, text: str) -> LoadedFile:
        self.was_read.append(path)
        source = SourceText(Path(path), text)
        try:
            document = json.loads(text)
        except json.JSONDecodeError as error:
            raise source.error(f"no JSON: {error.msg}", error.pos) from None
        models, mistakes = [], []
        for name, entry in document["models"].items():
            try:
                models.append(self._model(source, name, entry))
            except ProjectError as error:
                mistakes.append(error)
        if mistakes:
            raise ProjectError.combine(mistakes)
        return LoadedFile(Path(path), tuple(models))

    def _model(self, source: SourceText, name: str, entry: dict[str, str]) -> LoadedModel:
        full = self.names.read(f"{self._schema}.{name}")
        if name == "ghosts":
            raise source.error(f"{full} is no model", source.text.index("ghosts"))
        if entry["kind"] not in ("FULL", "VIEW"):
            raise source.error(f"no kind {entry['kind']}", source.text.index(entry["kind"]))
        start = source.text.index(entry["query"])
        end = start + len(entry["query"])
        rendered = self._folder.render(source, self.names, start, end)
        model = Model(
            name=full,
            kind=Kind.named(entry["kind"]),
            location=source.location(source.text.index(f'"{name}"')),
            query=rendered.sql,
            source=source.text,
            depends_on=tuple(sorted(rendered.reads)),
        )
        return LoadedModel(model, rendered.reads)
