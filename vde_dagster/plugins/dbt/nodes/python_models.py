"""dbt's Python models: their code, plus a function that calls it, becomes a Python model here."""

from __future__ import annotations

from vde_dagster.api.errors import ProjectError, SourceLocation
from vde_dagster.api.models import Column, PythonSource
from vde_dagster.api.values import ModelName
from vde_dagster.plugins.dbt.manifest import Node

_FUNCTION_NAME = "vde_model"
_FUNCTION = '''

_vde_names = {names!r}


def {called}(context):
    """Call the model as dbt does."""

    def load(name):
        return context.table(_vde_names["".join(c for c in name if c not in "`\\"")])

    return model(dbtObj(load), context.spark)
'''


def python_source(
    node: Node, reads: dict[str, ModelName], columns: tuple[Column, ...], location: SourceLocation
) -> PythonSource:
    """Return a model's code, with a function that calls the code as dbt does.

    Args:
        reads: The tables that the model reads, by dbt's names without quotes.

    Raises:
        ProjectError: The model has no compiled code, or lacks declared columns or types.
    """
    if node.compiled_code is None:
        raise ProjectError(
            f"the manifest has no compiled code of '{node.name}'",
            hint="run `dbt compile`",
            location=location,
        )
    if not columns or any(column.type is None for column in columns):
        raise ProjectError(
            f"the Python model '{node.name}' does not declare its columns and their types",
            hint="list each column with its data_type in the model's properties",
            location=location,
        )
    names = {text: str(name) for text, name in sorted(reads.items())}
    path = location.path.as_posix()
    code = node.compiled_code + _FUNCTION.format(names=names, called=_FUNCTION_NAME)
    return PythonSource(f"{path}:{_FUNCTION_NAME}", {path: code})
