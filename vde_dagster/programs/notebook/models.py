"""The reader of notebooks as model files; its dependencies are imported with the first notebook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vde_dagster.project.model import LoadedFile
    from vde_dagster.project.reading.file_context import FileContext
    from vde_dagster.project.sources.source import Folder


def load_notebook(folder: Folder, path: Path, text: str, context: FileContext) -> LoadedFile:
    from vde_dagster.programs.notebook.model_file import read_model

    return read_model(folder, path, text, context)
