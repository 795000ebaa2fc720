"""Python model files: functions with the decorator `@model`.

The tables that a model reads are found in its code, in calls such as `context.table("…")`.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.base.outside import find_outside_inputs
from vde_dagster.base.texts import suggest
from vde_dagster.errors import ProjectError, SourceLocation, UsageError, placed
from vde_dagster.project.kinds import KINDS, Kind
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.macros.registry import PythonModelDefinition
from vde_dagster.project.model import LoadedFile, LoadedModel, Model, PythonSource
from vde_dagster.project.properties.header import (
    header_literal,
    kind_text,
    parse_header,
    property_text,
)
from vde_dagster.project.properties.model_properties import (
    METADATA,
    READ,
    STATEMENTS,
    read_model_properties,
)
from vde_dagster.project.python.arguments import match_arguments
from vde_dagster.project.python.decorators import (
    python_blueprints,
    read_parts,
    variable_texts,
    with_variables_expanded,
)
from vde_dagster.project.python.files import module_file, parse_python, run_file
from vde_dagster.project.reading.audits import AuditCall, read_audits, read_call, read_signals
from vde_dagster.project.reading.file_context import (
    FileContext,
    loaded_models,
    model_name,
    with_kind_files,
)
from vde_dagster.project.reading.model_defaults import default_statements
from vde_dagster.project.reading.rendering import render
from vde_dagster.sql.scanner import SourceText, scan


def load_python_file(
    root: Path, path: Path, text: str, context: FileContext, hash_of: Callable[[str], str]
) -> LoadedFile:
    """Run a Python file and read its models; `hash_of` hashes a file of the project by path."""
    tree = parse_python(path, text)
    _, collector, files = run_file(root, path.as_posix(), text)
    outside = find_outside_inputs(root, files, hash_of)
    entrypoints = _entrypoints(path, collector.models)
    models: list[LoadedModel] = []
    for definition, entrypoint in zip(collector.models, entrypoints, strict=True):
        if _is_of_other_model_file(definition, path, files, context.settings.models_dir):
            continue
        location = SourceLocation(path, definition.line)
        for variables in python_blueprints(definition, location, context):
            # Macros get lists and tables unchanged, and other variables as texts.
            values = {key: own for key, own in variables.items() if isinstance(own, list | dict)}
            here = replace(context, variables=variable_texts(variables), values=values)
            asked = _used_variables(definition.function, files, context.settings.variables)
            python = PythonSource(
                entrypoint,
                files,
                outside.hashes,
                variables,
                asked,
                default_namespace=context.names.default_namespace,
                catalogs=dict(context.names.catalogs),
            )
            made = with_variables_expanded(definition, location, here)
            models += _read_model(made, python, location, text, tree, here)
    kind_files = (used for one in models for used in one.model.kind.files)
    uses = {*files, *outside.paths, *kind_files} - {path.as_posix()}
    return LoadedFile(path, tuple(models), uses=tuple(sorted(uses)), variables=outside.variables)


def _is_of_other_model_file(
    definition: PythonModelDefinition, path: Path, files: Mapping[str, str], models_dir: str
) -> bool:
    """Return whether a model belongs to an imported file that is loaded as a model file, too."""
    module = str(definition.function.__module__ or "").partition(".")[2]
    own = module_file(module, files)
    return own not in (None, path.as_posix()) and Path(str(own)).is_relative_to(models_dir)


def _entrypoints(path: Path, models: Sequence[PythonModelDefinition]) -> list[str]:
    names = [one.function.__name__ for one in models]
    made = []
    for place, name in enumerate(names, 1):
        which = f"#{names[:place].count(name)}" if names.count(name) > 1 else ""
        made.append(f"{path.as_posix()}:{name}{which}")
    return made


def _read_model(
    definition: PythonModelDefinition,
    python: PythonSource,
    location: SourceLocation,
    text: str,
    tree: ast.Module,
    context: FileContext,
) -> list[LoadedModel]:
    options = dict(definition.options)
    audits = options.pop("audits", ())
    signals = options.pop("signals", ())
    declared = options.pop("depends_on")
    kind = options.pop("kind")
    is_query = bool(options.pop("is_sql", False))
    around = {
        key: _with_default_statements(key, options.pop(key, None), context) for key in STATEMENTS
    }
    with placed(location):
        read = _read_properties(definition.name, kind, options, location.path, context, is_query)
    if read is None:
        return []
    properties, read_kind, dialect, written = read
    if definition.for_sqlmesh:
        python = replace(python, sqlmesh_dialect=dialect)
    with placed(location):
        name = context.names.read(written)
        reads = {context.names.read(str(item)): location for item in declared}
    context = replace(context, model=name, trusted=frozenset(properties["dialect_trust"]))
    called = definition.function if is_query else None
    parts = read_parts(called, around, location, context, dialect)
    reads |= parts.reads
    if not is_query:
        with placed(location):
            match_arguments(definition.function, python.settings)
        code = _ModelCode(tree, definition.function, python)
        found = _tables_read(code, location.path, context, declared=bool(declared))
        reads |= {table: place for table, place in found.items() if table not in parts.hidden}
    reads_itself = reads.pop(name, None) is not None
    given = context.defaults.get("audits")
    defaults = [read_call(value) for value in given.items()] if given is not None else []
    calls = [*defaults, *(_audit_call(item, location) for item in audits)]
    scope = context.scope(dialect)
    resolved, audit_reads = read_audits(calls, context.audit_context(scope))
    fields = dict(properties)
    named = [_audit_call(item, location, "a signal", literal=True) for item in signals]
    fields["signals"] = read_signals(named, context.signals)
    if fields["description"] is None:
        fields["description"] = inspect.getdoc(definition.function)
    model = Model(
        name=name,
        kind=read_kind,
        location=location,
        source=text,
        python=None if is_query else python,
        query=parts.query,
        pre_statements=parts.before,
        post_statements=parts.after,
        on_virtual_update=parts.later,
        depends_on=tuple(sorted(reads)),
        audits=resolved,
        reads_itself=reads_itself,
        dialect=dialect,
        **fields,
    )
    model = with_kind_files(model, location.path, context.settings, context.materializations)
    return loaded_models(model, {**audit_reads, **reads}, context.known_columns)


def _read_properties(
    name: str,
    kind: Any,
    options: Mapping[str, Any],
    path: Path,
    context: FileContext,
    is_query: bool,
) -> tuple[dict[str, Any], Kind, str, str] | None:
    """Return a decorated model's fields, kind, dialect and name, or None if it is disabled."""
    for key in options:
        if key not in READ and key not in METADATA:
            raise UsageError(f"unknown property '{key}'", hint=suggest(key, READ, "properties"))
    is_value = isinstance(kind, Kind)
    parts = [f"name {header_literal(name)}"] if name else []
    if kind is not None and not is_value:
        plain = getattr(kind, "value", kind)
        if not (isinstance(plain, str) or (isinstance(plain, Mapping) and "name" in plain)):
            hint = 'write kind="FULL" or kind={"name": "FULL"}'
            raise UsageError(f"{kind!r} is not a kind", hint=hint)
        parts.append(f"kind {kind_text(kind)}")
    elif kind is None and "kind" not in context.defaults:
        parts.append("kind FULL")
    dialect = str(options.get("dialect") or context.settings.dialect)
    for key, value in options.items():
        if value is not None and value != () and value != {}:
            parts.append(f"{key} {property_text(key, value, dialect)}")
    header_text = f"MODEL ({', '.join(parts)})"
    source = SourceText(path, header_text)
    header = parse_header(source, list(scan(source)))
    read = read_model_properties(header, context.settings, context.defaults_for(header))
    written, _ = model_name(header, read, path, context.settings)
    if not read.enabled:
        return None
    chosen: Kind = read.kind
    if is_value:
        chosen = kind.with_time_format(context.settings.time_column_format)
    if is_query and not chosen.has_query:
        raise UsageError(f"a model of kind {chosen.name} has no query")
    if not is_query and not chosen.allows_python:
        able = [name for name, kind in KINDS.by_name.items() if kind.allows_python]
        raise UsageError(
            f"a Python model cannot be of kind {chosen.name}",
            hint=f"use one of {', '.join(able)}",
        )
    return read.fields, chosen, read.dialect, written


def _with_default_statements(key: str, own: Any, context: FileContext) -> Any:
    defaults = [source.text for source in default_statements(context.settings, key)]
    if not defaults:
        return own
    listed = own if isinstance(own, Sequence) and not isinstance(own, str) else [own]
    return [*defaults, *(one for one in listed if one is not None)]


def _audit_call(
    item: Any, location: SourceLocation, what: str = "an audit", *, literal: bool = False
) -> AuditCall:
    """Read `"not_null"`, or `("not_null", {"columns": ["a"]})`.

    A string in the arguments is SQL, such as a column name. In `is_in` and `patterns`, and in all
    arguments if `literal` is true, it is a value instead and becomes a string literal.
    """
    if isinstance(item, str):
        return AuditCall(item, {}, location)
    if not (isinstance(item, Sequence) and len(item) == 2 and isinstance(item[1], Mapping)):
        hint = 'write ("name", {"argument": "value"})'
        raise ProjectError(f"{item!r} is not {what}", hint=hint, location=location)
    name, arguments = str(getattr(item[0], "__name__", item[0])), {}
    for key, value in item[1].items():
        plain = literal or key in ("is_in", "patterns")
        if isinstance(value, Sequence) and not isinstance(value, str):
            texts = [_argument_text(one, plain) for one in value]
            arguments[key] = f"({', '.join(texts)})" if texts else "()"
        else:
            arguments[key] = _argument_text(value, plain)
    return AuditCall(name, arguments, location)


def _argument_text(value: Any, literal: bool) -> str:
    if isinstance(value, str):
        return header_literal(value) if literal else value
    if hasattr(value, "sql"):
        return str(value.sql(dialect="spark"))
    return header_literal(value)


def _used_variables(
    function: Callable[..., Any], files: Mapping[str, str], variables: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the variables that the code uses; all if the code computes a variable's name."""
    known = {name.lower(): value for name, value in variables.items()}
    if not known:
        return {}
    names = {name.lower() for name in inspect.signature(function).parameters}
    for text in files.values():
        if ".var(" not in text and ".gateway" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and node.attr == "gateway":
                names.add("gateway")
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr == "var":
                first = next(iter([*node.args, *(word.value for word in node.keywords)]), None)
                if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
                    return dict(sorted(known.items()))
                names.add(first.value.lower())
    return {name: value for name, value in sorted(known.items()) if name in names}


_TABLE_METHODS = ("table", "resolve_table")
_QUERY_METHODS = ("sql", "fetchdf", "fetch_pyspark_df", "fetchall", "fetchone")


@dataclass(frozen=True, slots=True)
class _ModelCode:
    tree: ast.Module
    function: Callable[..., Any]
    python: PythonSource


def _tables_read(
    code: _ModelCode, path: Path, context: FileContext, *, declared: bool
) -> dict[ModelName, SourceLocation]:
    """Find the tables that a model's code reads.

    If the code does not show the name of a table, this is an error in a model without `depends_on`
    (`declared` is false).
    """
    reads: dict[ModelName, SourceLocation] = {}
    for function, call, method in _context_calls(code):
        location = SourceLocation(path, call.lineno, call.col_offset + 1)
        words = [word.value for word in call.keywords if word.arg in ("model_name", "query")]
        first = next(iter([*call.args, *words]), None)
        if method in _TABLE_METHODS:
            found = _argument_value(first, function, code)
            if found is not None:
                with placed(location):
                    reads.setdefault(context.names.read(found), location)
            elif not declared:
                raise ProjectError(
                    f"the table that context.{method}(…) reads cannot be found in the code",
                    hint='write the name as a string, or add depends_on=["schema.table"] to @model',
                    location=location,
                )
        elif isinstance(first, ast.Constant) and isinstance(first.value, str):
            scope = context.scope(code.python.sqlmesh_dialect or "spark")
            expander = Expander(SourceText(path, first.value), scope)
            with placed(location):
                for name in render(expander, expander.expand(), context.names).reads:
                    reads.setdefault(name, location)
    return reads


def _context_calls(code: _ModelCode) -> Iterator[tuple[ast.FunctionDef, ast.Call, str]]:
    functions = {node.name: node for node in code.tree.body if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(code.tree):
        if isinstance(node, ast.FunctionDef):
            functions.setdefault(node.name, node)
    own = _function_node(code)
    if own is not None:
        functions[own.name] = own
    waiting, seen = [code.function.__name__], set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in functions:
            continue
        seen.add(name)
        function = functions[name]
        parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        contexts = {"context"}
        if name == code.function.__name__:
            contexts |= {one.arg for one in parameters[:1]}
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id in functions:
                waiting.append(node.id)
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            owner, method = node.func.value, node.func.attr
            if isinstance(owner, ast.Attribute) and owner.attr == "engine_adapter":
                owner = owner.value
            if not (isinstance(owner, ast.Name) and owner.id in contexts):
                continue
            if method in (*_TABLE_METHODS, *_QUERY_METHODS):
                yield function, node, method


def _function_node(code: _ModelCode) -> ast.FunctionDef | None:
    """Return the tree of a model's function, even if a later function has the same name."""
    compiled = getattr(inspect.unwrap(code.function), "__code__", None)
    for node in ast.walk(code.tree):
        if not isinstance(node, ast.FunctionDef) or compiled is None:
            continue
        lines = {node.lineno, *(one.lineno for one in node.decorator_list)}
        if node.name == compiled.co_name and compiled.co_firstlineno in lines:
            return node
    return None


class _VariableLookup:
    def __init__(self, python: PythonSource) -> None:
        self._python = python

    def var(self, name: str, default: Any = None) -> Any:
        return self._python.settings.get(name.lower(), default)

    def blueprint_var(self, name: str, default: Any = None) -> Any:
        return self._python.variables.get(name.lower(), default)


def _argument_value(
    node: ast.expr | None, function: ast.FunctionDef, code: _ModelCode
) -> str | None:
    """Return an argument's text: a literal, a constant, or a value computed from variables."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if node is None or _uses_own_names(node, function):
        return None
    parameters = function.args.posonlyargs + function.args.args
    stand_in = _VariableLookup(code.python)
    names = {one.arg: stand_in for one in parameters[:1]} | {"context": stand_in}
    try:
        value = eval(  # the project's code, whose module was executed before
            compile(ast.Expression(node), "<depends_on>", "eval"),
            {**code.function.__globals__},
            names,
        )
    except Exception:
        return None
    return value if isinstance(value, str) else None


def _uses_own_names(node: ast.expr, function: ast.FunctionDef) -> bool:
    used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    given = {
        one.id
        for one in ast.walk(function)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }
    parameters = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    given |= {one.arg for one in parameters[1:]}
    return bool(used & given - {"context"})
