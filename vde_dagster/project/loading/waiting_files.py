"""Files that wait for the columns of models in other files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.macros.known_columns import Columns, ColumnsWantedError, KnownColumns
from vde_dagster.project.model import LoadedFile
from vde_dagster.project.reading.columns import UnknownColumnsError, output_columns


class WaitingFiles:
    """Files whose macros need columns of models in other files, such as `@STAR(other)`."""

    def __init__(self, known: KnownColumns) -> None:
        self._known = known
        self._waiting: dict[str, ColumnsWantedError] = {}
        self._files: dict[ModelName, LoadedFile] = {}

    def postpone(self, path: str, wanted: ColumnsWantedError) -> None:
        """Read a file later, once the columns that it needs are known."""
        self._waiting[path] = wanted
        self._known.asked.clear()

    def read(
        self, loaded: list[LoadedFile], read_file: Callable[[str], LoadedFile | None]
    ) -> list[ProjectError]:
        """Read all postponed files, each after the files that it needs.

        Args:
            loaded: Files that are already read; waiting files are added.
            read_file: Reads a file; None if it has an error or must wait again.

        Returns:
            Errors of files whose required columns cannot be determined.
        """
        for file in loaded:
            self._add_models(file)
        while self._waiting:
            ready = [path for path, wanted in self._waiting.items() if self._is_known(wanted.name)]
            ready = ready or self._release_without_columns()
            if not ready:
                break
            for path in ready:
                del self._waiting[path]
            for path in ready:
                read = read_file(path)
                if read is not None:
                    loaded.append(read)
                    self._add_models(read)
        return [one.mistake for one in self._waiting.values() if one.mistake is not None]

    def with_column_sources(self, file: LoadedFile) -> LoadedFile:
        """Extend a file's `uses` by the files that determine the columns its macros read."""
        uses = {use for name in self._known.asked for use in self._known.files.get(name, ())}
        self._known.asked.clear()
        uses.discard(str(file.path))
        return replace(file, uses=tuple(sorted({*file.uses, *uses}))) if uses else file

    def _release_without_columns(self) -> list[str]:
        """Release files that can be read without the wanted columns, and return their paths."""
        paths = [path for path, wanted in self._waiting.items() if wanted.mistake is None]
        for path in paths:
            name = self._waiting[path].name
            self._known.columns[name] = None
            file = self._files.get(name)
            self._known.files[name] = frozenset((str(file.path), *file.uses) if file else ())
        return paths

    def _add_models(self, file: LoadedFile) -> None:
        for one in file.models:
            self._files[one.model.name] = file

    def _is_known(self, name: ModelName) -> bool:
        try:
            self._columns(name, ())
        except UnknownColumnsError:
            return False
        return True

    def _columns(self, name: ModelName, below: tuple[ModelName, ...]) -> Columns:
        known = self._known.columns.get(name)
        if known is not None:
            return known
        file = self._files.get(name)
        if file is None or name in below:
            raise UnknownColumnsError
        files = {str(file.path), *file.uses}

        def parent_columns(parent: ModelName) -> Columns:
            found = self._columns(parent, (*below, name))
            files.update(self._known.files[parent])
            return found

        model = next(one.model for one in file.models if one.model.name == name)
        columns = output_columns(model, parent_columns)
        self._known.files[name] = frozenset(files)
        self._known.columns[name] = columns
        return columns
