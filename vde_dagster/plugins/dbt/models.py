"""Conversion of a node with its tests to a model: name, query, kind, columns and audits."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from vde_dagster.api.errors import ProjectError, SourceLocation, UsageError, placed
from vde_dagster.api.kinds import Kind
from vde_dagster.api.models import Asset, Column, Exposure, Model, PythonSource, TestTable
from vde_dagster.api.sources import LoadedFile, LoadedModel, TableNames
from vde_dagster.api.sql import Expanded, SourceText, placeholder
from vde_dagster.api.values import ModelName, quote
from vde_dagster.plugins.dbt import relations
from vde_dagster.plugins.dbt.context import Context
from vde_dagster.plugins.dbt.manifest import Node
from vde_dagster.plugins.dbt.nodes import incremental
from vde_dagster.plugins.dbt.nodes.audits import (
    constraint_audits,
    freshness_audits,
    read_audits,
    read_grains,
)
from vde_dagster.plugins.dbt.nodes.kinds import configuration_error, read_filling, with_refresh
from vde_dagster.plugins.dbt.nodes.options import ignored_options, partitions
from vde_dagster.plugins.dbt.nodes.seed_types import infer_seed_types
from vde_dagster.plugins.dbt.nodes.snapshots import split_snapshot
from vde_dagster.plugins.dbt.nodes.statements import with_statements
from vde_dagster.plugins.dbt.nodes.unit_tests import read_unit_tests
from vde_dagster.plugins.dbt.nodes.when import read_schedule
from vde_dagster.plugins.dbt.units import Reader, Unit, owner_name

_TIME = re.compile(
    r"time(?:tz)?\s*(?:\(\s*\d+\s*\))?(?:\s+with(?:out)?\s+time\s+zone)?", re.IGNORECASE
)
"""Types of times of day, which Iceberg has and Spark refuses."""
_OPTS_OUT = re.compile(r"\.\s*(?:render|identifier|name|table)\b")
"""Calls that turn a relation into plain text, so that dbt does not filter it."""


def read_unit(name: str, unit: Unit | Reader, context: Context) -> LoadedFile:
    """Convert a node or exposure of a manifest.

    Raises:
        ProjectError: The node is not supported, or its SQL is invalid.
    """
    if isinstance(unit, Reader):
        path = context.file(unit.exposure.package_name, unit.exposure.original_file_path)
        return read_exposure(name, unit, path, context.names)
    node = unit.node
    path = context.file(node.package_name, node.original_file_path)
    line = 1 if path.suffix in (".sql", ".csv", ".py") else None
    location = SourceLocation(path, line)
    with _wrap_errors(node, location):
        model, reads, unread = _convert_node(unit, context, location)
        unread += tuple(ignored_options(node, grants=context.grants))
    audits, audit_reads, broken = read_audits(
        unit.tests,
        lambda test, form: _test_query(test, form, unit, context),
        context.dialect,
        model.dialect_trust,
    )
    model = replace(model, audits=(*model.audits, *audits))
    unread += broken
    unread += tuple("store_failures" for test in unit.tests if test.config.get("store_failures"))
    tests, untested = read_unit_tests(
        unit,
        model,
        _incremental_model(unit, model, context),
        context.file,
        context.names.model_name,
        lambda path, text: _test_rows(SourceText(path, text), model, context),
    )
    group = node.group or node.config.get("group")
    is_private = node.access == "private"
    models: tuple[LoadedModel, ...] = (
        LoadedModel(model, {**audit_reads, **reads}, group, is_private),
    )
    if node.materialized == "snapshot":
        with _wrap_errors(node, location):
            table, view = split_snapshot(model, node, context.dialect)
        view_reads = {**audit_reads, table.name: location}
        models = (LoadedModel(table, reads, group), LoadedModel(view, view_reads, group))
    return LoadedFile(
        Path(name),
        models,
        tests,
        uses=model.kind.files,
        unread=(*unread, *untested),
        catalogs=tuple(sorted(context.names.used)),
    )


@contextmanager
def _wrap_errors(node: Node, location: SourceLocation) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise configuration_error(node, error, location) from None


def _convert_node(
    unit: Unit, context: Context, location: SourceLocation
) -> tuple[Model, dict[ModelName, SourceLocation], tuple[str, ...]]:
    node, settings, dialect = unit.node, context.settings, context.dialect
    is_source = node.resource_type == "source"
    is_python = node.language == "python"
    columns, misread = _columns(node, context, location)
    meta = {**node.meta, **(node.config.get("meta") or {})}
    owner = meta.get("owner") or unit.owner or settings.owner
    model = Model(
        name=_model_name(node, context, location),
        kind=Kind.named("EXTERNAL", partial=is_source),
        location=location,
        source=node.raw_code or node.name,
        description=node.description or None,
        owner=str(owner) if owner else None,
        tags=tuple(dict.fromkeys(node.tags)),
        columns=columns if is_source or is_python or node.contract.enforced else (),
        column_descriptions={c.name: c.description for c in columns if c.description},
        asset=read_asset(node, meta),
        tool="dbt",
        dialect="spark" if is_source or is_python else dialect,
        dialect_trust=tuple(sorted(name.lower() for name in settings.dialect_trust)),
    )
    if is_source:
        audits = tuple(freshness_audits(node, dialect, frozenset(model.dialect_trust)))
        lacking = ("freshness without loaded_at_field",) if _lacks_loaded_at(node) else ()
        return replace(model, audits=audits), {}, (*misread, *lacking)
    made = read_filling(node, unit.later, location.path, context.adapter, dialect, location)
    kind = with_refresh(made.kind, node, meta)
    model = replace(model, kind=kind, **read_schedule(meta, made, settings))
    if node.contract.enforced:
        audits = tuple(constraint_audits(node, dialect, frozenset(model.dialect_trust)))
        model = replace(model, audits=audits, grains=read_grains(node))
    whole = (incremental.READ_WHOLE,) if made.batch and not unit.event_times else ()
    unread = (*made.unread, *whole, *misread)
    model, unknown = with_statements(model, node, unit.hooks, context)
    unread += unknown
    if node.materialized == "seed":
        model, texts = _with_seed(node, model, context)
        return model, {}, (*unread, *texts)
    if model.kind.owns_table:
        model = replace(model, partitioned_by=partitions(node, dialect))
    read = (
        _with_python(unit, model, context) if is_python else _with_query(unit, made, model, context)
    )
    appends = model.kind.name == "INCREMENTAL_UNMANAGED" and not model.kind.refills
    return *read, (*unread, *([incremental.APPENDED] if appends else []))


def _lacks_loaded_at(node: Node) -> bool:
    limits = ((node.freshness or {}).get(key) or {} for key in ("warn_after", "error_after"))
    return not node.loaded_at_field and any(limit.get("count") for limit in limits)


def _with_python(
    unit: Unit, model: Model, context: Context
) -> tuple[Model, dict[ModelName, SourceLocation]]:
    if context.dialect != "spark":
        raise ProjectError(
            f"'{unit.node.name}' is a Python model for the adapter '{context.adapter}'",
            hint="only Python models of dbt-spark and dbt-databricks are supported",
            location=model.location,
        )
    names = {".".join(parts): context.names.model_name(parts) for parts in unit.parents}
    python = python_source(unit.node, names, model.columns, model.location)
    reads = tuple(sorted(set(names.values()) - {model.name}))
    return replace(model, python=python, depends_on=reads), dict.fromkeys(reads, model.location)


def _with_query(
    unit: Unit, made: incremental.Filling, model: Model, context: Context
) -> tuple[Model, dict[ModelName, SourceLocation]]:
    node, dialect = unit.node, context.dialect
    source = _source(node, context)
    if made.batch and unit.limited is not None:
        source = replace(source, text=unit.limited)
    first = relations.replace_ephemeral(source, unit.ephemeral, dialect)
    if made.batch:
        first = _filter_inputs(unit, first, context)
    if not (made.both and unit.later is not None and node.relation_name):
        return _with_code(model, context.render(source, first))
    after = replace(source, text=unit.later)
    later = relations.replace_ephemeral(after, unit.ephemeral, dialect)
    conditions = incremental.added_conditions(first.text, later.text, dialect)
    if conditions is None:
        one, reads = context.render(source, first)
        other, later_reads = context.render(after, later)
        this = ".".join(quote(part) for part in (model.name.namespace, model.name.name))
        reads = {**later_reads, **reads, model.name: model.location}
        return _with_code(model, (incremental.unite_branches(one, other, this), reads))
    later = incremental.ignore_while_empty(later, conditions, node.relation_name)
    return _with_code(model, context.render(after, later))


def _filter_inputs(unit: Unit, code: Expanded, context: Context) -> Expanded:
    """Filter the inputs of a microbatch by event_time.

    As in dbt, an input that the model names with `.render()` is not filtered.

    Raises:
        ProjectError: The model may use `.render()` for an input, but the input is unknown.
    """
    node, dialect = unit.node, context.dialect
    times = {
        relations.quote_name(unit.ephemeral[name], dialect)
        if name in unit.ephemeral
        else name: column
        for name, column in unit.event_times.items()
    }
    if unit.limited is not None and relations.has_limits(unit.limited):
        return relations.filter_by_batch(code, times)
    if times and _OPTS_OUT.search(node.raw_code):
        if unit.limited is not None:
            return code  # All of them are rendered.
        raise ProjectError(
            f"'{node.name}' is a microbatch that calls render(), so dbt does not filter one of its "
            "inputs, and the manifest does not show which",
            hint="run `dbt compile --full-refresh --empty --target-path target/empty`, or let vde "
            "run dbt: compile = true under [tool.vde.dbt]",
            location=SourceLocation(context.file(node.package_name, node.original_file_path), 1),
        )
    for relation, column in times.items():
        code = relations.filter_by_interval(code, relation, column)
    return code


def _incremental_model(unit: Unit, model: Model, context: Context) -> Model | None:
    """Return the model as compiled with a true `is_incremental()`, if a unit test needs it."""
    asked = any(
        (t.overrides or {}).get("macros", {}).get("is_incremental") for t in unit.unit_tests
    )
    if unit.later is None or not asked:
        return None
    source = replace(_source(unit.node, context), text=unit.later)
    code = relations.replace_ephemeral(source, unit.ephemeral, context.dialect)
    query, reads = context.render(source, code)
    return replace(model, query=query, reads_itself=model.name in reads)


def _with_code(
    model: Model, rendered: tuple[str, dict[ModelName, SourceLocation]]
) -> tuple[Model, dict[ModelName, SourceLocation]]:
    query, reads = rendered
    reads_itself = reads.pop(model.name, None) is not None
    depends_on = tuple(sorted(reads))
    return replace(model, query=query, depends_on=depends_on, reads_itself=reads_itself), reads


def _model_name(node: Node, context: Context, location: SourceLocation) -> ModelName:
    try:
        return context.names.model_name(node.relation)
    except UsageError as error:
        raise ProjectError(error.message, hint=error.hint, location=location) from None


def _source(node: Node, context: Context) -> SourceText:
    file = context.file(node.package_name, node.original_file_path)
    path = context.folder / node.compiled_path if node.compiled_path else file
    if path.is_absolute() and path.is_relative_to(context.settings.root):
        path = path.relative_to(context.settings.root)
    return SourceText(path, node.compiled_code or "")


def _test_rows(source: SourceText, model: Model, context: Context) -> TestTable:
    code = relations.replace_ephemeral(source, {}, context.dialect)
    query = context.render(source, code, "query of rows")[0]
    dialect, trusted = context.dialect, model.dialect_trust
    return TestTable((), (), query=query, dialect=dialect, dialect_trust=trusted)


def _test_query(
    test: Node, form: str, unit: Unit, context: Context
) -> tuple[str, dict[ModelName, SourceLocation]]:
    source = _source(test, context)
    code = relations.replace_ephemeral(source, unit.ephemeral, context.dialect)
    node = unit.node
    if node.relation_name:
        this_model = placeholder("this_model")
        code = relations.replace_relation(code, node.relation_name, this_model, node.relation[-1])
    query, reads = context.render(source, code, f"test {test.name}")
    reads.pop(ModelName(context.names.default_namespace, placeholder("this_model")), None)
    return form.replace("{}", query), reads


def _columns(
    node: Node, context: Context, location: SourceLocation
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    found, misread = [], []
    for column in node.columns.values():
        type_ = None
        if column.data_type:
            try:
                type_ = _spark_type(column.data_type, context, location)
            except ProjectError:
                if node.contract.enforced:
                    raise
                misread.append("columns with an unknown type")
        found.append(Column(column.name, type_, column.description or None))
    return tuple(found), tuple(misread)


def _spark_type(text: str, context: Context, location: SourceLocation) -> str:
    if _TIME.fullmatch(text.strip()):
        raise ProjectError(
            f"Spark's tables do not support the type '{text}'",
            hint="declare the column as a text or a timestamp",
            location=location,
        )
    return context.project.column_type(text, context.dialect, location)


def _seed_type(
    given: Mapping[str, str], name: str, times: Sequence[str], context: Context, at: SourceLocation
) -> str | None:
    if name in times:
        return "STRING"
    return _spark_type(given[name], context, at) if name in given else None


def _with_seed(node: Node, model: Model, context: Context) -> tuple[Model, tuple[str, ...]]:
    # The first line of the file names the columns.
    place = context.file(node.package_name, node.original_file_path)
    path = context.settings.root / place
    given = {str(k).lower(): str(v) for k, v in (node.config.get("column_types") or {}).items()}
    times = [name for name, type_ in given.items() if _TIME.fullmatch(type_.strip())]
    if path.is_symlink() and not path.is_file():
        raise ProjectError(
            f"the file of the seed '{node.name}' is a link to {os.readlink(path)}, "
            "which is not a readable file",
            hint="point the link to a file, or replace it with the file",
            location=SourceLocation(place),
        )
    if not path.is_file():
        other = node.package_name != context.package
        raise ProjectError(
            f"the file of the seed '{node.name}' does not exist",
            hint="run `dbt deps`" if other else "run `dbt compile`",
            location=SourceLocation(place),
        )
    delimiter = str(node.config.get("delimiter") or ",")
    inferred = infer_seed_types(path, delimiter, context.adapter)
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        names = next(csv.reader(file, delimiter=delimiter), [])
    columns = tuple(
        Column(
            name.strip(),
            _seed_type(given, name.strip().lower(), times, context, model.location)
            or inferred.get(name.strip().lower()),
            model.column_descriptions.get(name.strip()),
        )
        for name in names
        if name.strip()
    )
    model = replace(model, columns=columns)
    texts = ("seeds with columns of the type TIME, which are texts",) if times else ()
    return context.project.load_seed(model), texts


def read_exposure(unit: str, reader: Reader, path: Path, names: TableNames) -> LoadedFile:
    """Convert an exposure of dbt, with the models that it reads."""
    exposure, place = reader.exposure, SourceLocation(path)
    with placed(place):
        reads = tuple((names.model_name(parts), None, place) for parts in reader.reads)
    name, owner = exposure.label or exposure.name, owner_name(exposure.owner)
    description = exposure.description or None
    converted = Exposure(name, owner, exposure.url, reads, place, description=description)
    return LoadedFile(Path(unit), exposures=(converted,) if reads else ())


def read_asset(node: Node, meta: Mapping[str, Any]) -> Asset:
    """Return a node's asset key, group and owners, from `meta.dagster` or else from dbt's names.

    The names equal dagster-dbt's defaults, so existing schedules, sensors and assets keep working.
    Source: https://docs.dagster.io/integrations/libraries/dbt/reference
    """
    value = meta.get("dagster")
    given: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    group = given.get("group") or node.group or node.config.get("group")
    owners = tuple(map(str, _as_list(given.get("owners"))))
    return Asset(
        tuple(map(str, _as_list(given.get("asset_key")))) or _asset_key(node),
        str(group) if group else None,
        owners,
    )


def _asset_key(node: Node) -> tuple[str, ...]:
    if node.resource_type == "source":
        return (node.source_name, node.name) if node.source_name else ()
    if node.version is not None:
        return (node.alias or node.name,)
    schema = node.config.get("schema")
    return (str(schema), node.name) if schema else (node.name,)


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [value]
    return value if isinstance(value, list) else []


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
