"""Sources of models, and readers of files next to the models."""

from vde_dagster.base.failures import Problem
from vde_dagster.project.files import replacing
from vde_dagster.project.model import LoadedFile, LoadedModel
from vde_dagster.project.python.watching import TooSlow
from vde_dagster.project.reading.file_context import FileContext
from vde_dagster.project.sources.source import Folder, Source
from vde_dagster.project.table_names import TableNames
from vde_dagster.project.yaml_text import YamlDocument, load_yaml

__all__ = [
    "FileContext",
    "Folder",
    "LoadedFile",
    "LoadedModel",
    "Problem",
    "Source",
    "TableNames",
    "TooSlow",
    "YamlDocument",
    "load_yaml",
    "replacing",
]
