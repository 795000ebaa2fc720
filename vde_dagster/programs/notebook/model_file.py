"""Notebooks as models: a header in the first cell, and a Python model that runs the notebook.

The model's code is a generated module with the code of the cells; its function lets a kernel run
the original notebook. The model's version depends on this module and on the project's modules that
cells import, but not on outputs, texts and formatting.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from vde_dagster.base.installing import how_to_install
from vde_dagster.base.names import ModelName
from vde_dagster.base.outside import OutsideInputs, find_outside_inputs
from vde_dagster.errors import ProjectError, SourceLocation, placed
from vde_dagster.programs.notebook.cells import PARAMETERS, Cell, Notebook, read_notebook
from vde_dagster.programs.notebook.parameters import blank_parameters
from vde_dagster.project.kinds import Full, Kind
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.model import Column, LoadedFile, LoadedModel, Model, PythonSource
from vde_dagster.project.properties.header import Header
from vde_dagster.project.properties.header_macros import expanded_header
from vde_dagster.project.properties.model_properties import ModelProperties, read_model_properties
from vde_dagster.project.python.files import with_local_imports
from vde_dagster.project.python.versions import reached_inputs
from vde_dagster.project.reading.audits import read_audits, read_call, read_signals
from vde_dagster.project.reading.file_context import FileContext, model_name, read_name
from vde_dagster.project.reading.rendering import render
from vde_dagster.project.reading.sql_models import default_statements_in
from vde_dagster.project.reading.statements import read_blocks
from vde_dagster.project.sources.source import Folder
from vde_dagster.sql.scanner import SourceText

PAGE = Column("page", "STRING", "The notebook as it was run, as HTML")
"""The only column of a notebook without declared columns; it contains the page."""


def read_model(folder: Folder, path: Path, text: str, context: FileContext) -> LoadedFile:
    """Read a notebook as a Python model.

    If the first cell has no `MODEL (…)` header, the result contains no model.

    Raises:
        ProjectError: The file, its header or the code of a cell has a mistake.
    """
    notebook = read_notebook(path, text)
    written = notebook.header
    if written is None:
        return LoadedFile(path)
    if not all(map(find_spec, ("nbclient", "nbconvert"))):
        raise ProjectError(
            "the notebook is a model, but the packages that run notebooks are not installed",
            hint=how_to_install("notebook"),
            location=SourceLocation(path),
        )
    source, blocks = read_blocks(path, written, context.settings.dialect)
    block = blocks[0]
    if len(blocks) > 1 or block.statements or block.on_virtual_update:
        raise source.error(
            "a notebook's first cell must contain only the header",
            block.header.start,
            "put statements into pre_statements of the settings, and audits into files",
        )
    if "blueprints" in block.header.properties:
        value = block.header.properties["blueprints"]
        raise value.error("a notebook cannot have blueprints", "write them in a Python model")
    scope = context.scope(context.settings.dialect)
    header = expanded_header(block.header, scope, {})
    properties = read_model_properties(header, context.settings, context.defaults_for(header))
    if not properties.enabled:
        return LoadedFile(path)
    python = _read_code(folder, notebook, properties, context)
    model = _make_model(notebook, header, properties, python.source, context)
    return LoadedFile(path, (model,), uses=python.uses, variables=python.variables)


def _make_model(
    notebook: Notebook,
    header: Header,
    properties: ModelProperties,
    python: PythonSource,
    context: FileContext,
) -> LoadedModel:
    written, error = model_name(header, properties, notebook.path, context.settings)
    name = read_name(written, context.names, error)
    reads = {
        read_name(value.identifier(), context.names, value.error): value.location()
        for value in properties.depends_on
    }
    for parent in _find_inputs(notebook, context, lists_inputs=bool(reads)):
        reads.setdefault(parent, SourceLocation(notebook.path))
    if name in reads:
        raise error(f"{name} reads itself", "remove it from the inputs of the notebook")
    fields = dict(properties.fields)
    fields["columns"] = fields["columns"] or (PAGE,)
    fields["signals"] = read_signals(map(read_call, properties.signals), context.signals)
    scope = context.scope(properties.dialect)
    audits, audit_reads = read_audits(
        map(read_call, properties.audits), context.audit_context(scope)
    )
    expander = Expander(header.source, scope)
    model = Model(
        name=name,
        kind=_read_kind(header, properties, context),
        location=header.source.location(header.start),
        source=notebook.text,
        python=python,
        depends_on=tuple(sorted(reads)),
        audits=audits,
        pre_statements=default_statements_in("pre_statements", expander, context),
        post_statements=default_statements_in("post_statements", expander, context),
        on_virtual_update=default_statements_in("on_virtual_update", expander, context),
        **fields,
    )
    return LoadedModel(model, {**audit_reads, **reads})


def _read_kind(header: Header, properties: ModelProperties, context: FileContext) -> Kind:
    value = header.properties.get("kind")
    if value is None and "kind" not in context.defaults:
        return Full()
    if not properties.kind.allows_python:
        message = f"a notebook cannot be of kind {properties.kind.name}"
        hint = "use FULL or an incremental kind"
        if value is not None:
            raise value.error(message, hint)
        raise header.source.error(message, header.start, hint)
    return properties.kind


@dataclass(frozen=True, slots=True)
class _NotebookCode:
    source: PythonSource
    uses: tuple[str, ...]
    variables: tuple[str, ...]


def _read_code(
    folder: Folder, notebook: Notebook, properties: ModelProperties, context: FileContext
) -> _NotebookCode:
    path = notebook.path.as_posix()
    module = f"{re.sub(r'[^0-9A-Za-z]', '_', path)}.py"
    has_rows = bool(properties.fields["columns"])
    text = module_text(notebook, has_rows=has_rows)
    own = _read_inputs(folder, module, text)
    with_magics = module_text(notebook, has_rows=has_rows, with_magics=True)
    all_ = own if with_magics == text else _read_inputs(folder, module, with_magics)
    # Magics such as `%config` reach no file, and leave the version as it is.
    chosen = own if own.reached == all_.reached else all_
    try:
        compile(chosen.files[module], module, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise ProjectError(
            f"the cells' code is not valid Python: {error.msg}",
            hint=f"check: {(error.text or '').strip()}",
            location=SourceLocation(notebook.path),
        ) from None
    known = {name.lower(): value for name, value in context.settings.variables.items()}
    asked = {name: known[name] for name in sorted(_parameter_names(notebook)) if name in known}
    source = PythonSource(
        f"{module}:notebook",
        {**chosen.files, path: notebook.normal_form},
        chosen.outside.hashes,
        settings=asked,
        default_namespace=context.names.default_namespace,
        catalogs=dict(context.names.catalogs),
    )
    uses = {*all_.files, *all_.outside.paths} - {module, path}
    return _NotebookCode(source, tuple(sorted(uses)), all_.outside.variables)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The texts of a notebook's module and its imports, and what the module can reach.

    Args:
        reached: Hashes by the names of modules, files and environment variables.
    """

    files: dict[str, str]
    outside: OutsideInputs
    reached: dict[str, bytes | str]


def _read_inputs(folder: Folder, module: str, text: str) -> _Inputs:
    files = with_local_imports(folder.root, module, text)
    outside = find_outside_inputs(folder.root, files, folder.hasher.hash)
    return _Inputs(files, outside, reached_inputs(module, "notebook", files, outside.hashes))


def module_text(notebook: Notebook, *, has_rows: bool, with_magics: bool = False) -> str:
    """Write the Python module of a notebook: the cells' code, and the function that runs it.

    Args:
        has_rows: Whether the notebook yields rows.
        with_magics: Whether the code in magics is part of the module, see `Notebook.code`.
    """
    body: list[ast.stmt] = [
        _NestedStatements().visit(statement)
        for _, code in notebook.code(with_magics=with_magics)
        for statement in code
    ]
    cells = ast.parse("async def cells(): ...").body[0]
    assert isinstance(cells, ast.AsyncFunctionDef)
    cells.body = body or cells.body
    code = ast.unparse(ast.fix_missing_locations(ast.Module([cells], [])))
    runs = "run_notebook" if has_rows else "run_report"
    return (
        f"{code}\n\n\ndef notebook(context):\n"
        f"    from vde_dagster.programs.notebook.step import {runs}\n\n"
        f"    return {runs}(context, cells)\n"
    )


class _NestedStatements(ast.NodeTransformer):
    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        if node.module == "__future__":
            return ast.Expr(ast.Constant(ast.unparse(node)))
        if node.names[0].name == "*" and node.module:
            return ast.Import([ast.alias(node.module)])  # The whole module counts.
        return node


def _parameter_names(notebook: Notebook) -> set[str]:
    return {
        node.id
        for cell, code in notebook.code()
        if PARAMETERS in cell.tags
        for statement in code
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _find_inputs(
    notebook: Notebook, context: FileContext, *, lists_inputs: bool
) -> Iterator[ModelName]:
    # If the header lists the inputs, names that are not constant are skipped.
    for cell, code in notebook.code(with_magics=True):
        for call in (node for one in code for node in ast.walk(one) if isinstance(node, ast.Call)):
            found = _read_argument(call)
            if found is None:
                continue
            is_query, text = found
            if text is None:
                if lists_inputs:
                    continue
                raise ProjectError(
                    f"cell {cell.number}: cannot determine which models this call reads: "
                    f"{ast.unparse(call)[:80]}",
                    hint="write the name or the query as a string, or list the models in "
                    "depends_on (…) of the header",
                    location=SourceLocation(notebook.path),
                )
            yield from _named_models(cell, text, notebook.path, context, is_query=is_query)


def _named_models(
    cell: Cell, text: str, path: Path, context: FileContext, *, is_query: bool
) -> Iterator[ModelName]:
    place = SourceLocation(path)
    try:
        with placed(place):
            if not is_query:
                yield context.names.read(text)
                return
            source = SourceText(path, blank_parameters(text.strip().rstrip(";")))
            expander = Expander(source, context.scope("spark"))
            yield from render(expander, expander.expand(), context.names).reads
    except ProjectError as error:
        message = f"cell {cell.number}: {error.message}"
        raise ProjectError(message, hint=error.hint, location=place) from None


_READING_METHODS = {"read": (0, "model", False), "ask": (1, "sql", True)}
"""Arguments of `workspace.read` and `workspace.ask` that determine which models are read.

By method: the position and name of the argument, and whether it is SQL or the name of a model.
"""


def _read_argument(call: ast.Call) -> tuple[bool, str | None] | None:
    function = call.func
    if not isinstance(function, ast.Attribute):
        return None
    given = {word.arg: word.value for word in call.keywords}
    if function.attr == "run_cell_magic":
        magic, _, body = (_constant_text(one) for one in call.args[:3])
        return (True, body) if magic == "vde" else None
    if not (isinstance(function.value, ast.Name) and function.value.id == "workspace"):
        return None
    if function.attr not in _READING_METHODS:
        return None
    place, name, is_query = _READING_METHODS[function.attr]
    argument = call.args[place] if len(call.args) > place else given.get(name)
    return is_query, _constant_text(argument)


def _constant_text(node: ast.expr | None) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None
