"""From a unit of a manifest to a model: its name, query, kind, columns and audits."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, SourceLocation, UsageError
from vde_dagster.plugins.dbt.audits import audits_of, not_null
from vde_dagster.plugins.dbt.kinds import kind_of
from vde_dagster.plugins.dbt.manifest import Column as DbtColumn
from vde_dagster.plugins.dbt.manifest import Node, Unit
from vde_dagster.plugins.dbt.relations import with_this_model, without_ephemeral
from vde_dagster.project.kinds import External, Seed
from vde_dagster.project.macros.expansion import Expander, MacroScope
from vde_dagster.project.model import Column, LoadedFile, LoadedModel, Model
from vde_dagster.project.properties.model_properties import canonical_type
from vde_dagster.project.reading.rendering import Rendered, render
from vde_dagster.project.reading.seeds import load_seed
from vde_dagster.project.settings import Settings
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.edits import Expanded
from vde_dagster.sql.scanner import SourceText, refuse_too_deep
from vde_dagster.sql.trees import ParsedQueries, placeholder

_UNREAD = ("pre-hook", "post-hook", "grants")
"""Configuration of nodes that has no meaning here yet."""
_PACKAGES = "dbt_packages"


@dataclass(frozen=True, slots=True)
class Context:
    """The context that all units share.

    Args:
        folder: The dbt project's folder, relative to the root.
        package: The dbt project's name; other packages lie below its folder.
        dialect: SQLGlot dialect of compiled code.
    """

    settings: Settings
    names: TableNames
    parsed: ParsedQueries
    folder: Path
    package: str
    dialect: str

    def file(self, node: Node) -> Path:
        """Return a node's file, relative to the root."""
        return file_of(self.folder, self.package, node.package_name, node.original_file_path)


def file_of(folder: Path, own: str, package: str, path: str) -> Path:
    """Return a file of the project or of a package, relative to the root."""
    return folder / path if package == own else folder / _PACKAGES / package / path


def read_unit(name: str, unit: Unit, context: Context) -> LoadedFile:
    """Read a unit.

    Raises:
        ProjectError: It has no meaning here, or its SQL cannot be read.
    """
    node = unit.node
    path = context.file(node)
    line = 1 if path.suffix in (".sql", ".csv", ".py") else None
    location = SourceLocation(path, line)
    model, reads, unread = _model(unit, context, location)
    audits, audit_reads = audits_of(unit.tests, lambda test, form: _test(test, form, unit, context))
    model = replace(model, audits=(*model.audits, *audits))
    unread += tuple(key for key in _UNREAD if node.config.get(key))
    unread += tuple("store_failures" for test in unit.tests if test.config.get("store_failures"))
    file = LoadedFile(Path(name), (LoadedModel(model, {**audit_reads, **reads}),))
    return replace(
        file,
        uses=model.kind.files,
        unread=unread,
        catalogs=tuple(sorted(context.names.used)),
    )


def _model(
    unit: Unit, context: Context, location: SourceLocation
) -> tuple[Model, dict[ModelName, SourceLocation], tuple[str, ...]]:
    node, settings = unit.node, context.settings
    is_source = node.resource_type == "source"
    kind, unread = (
        (External(), _freshness(node))
        if is_source
        else kind_of(node, location.path, context.dialect, location)
    )
    columns, misread = _columns(node, context, location)
    meta = {**node.meta, **(node.config.get("meta") or {})}
    owner = meta.get("owner") or unit.owner or settings.owner
    model = Model(
        name=_name(node, context, location),
        kind=kind,
        location=location,
        source=node.raw_code or node.name,
        description=node.description or None,
        owner=str(owner) if owner else None,
        tags=tuple(dict.fromkeys(node.tags)),
        columns=columns if is_source or node.contract.enforced else (),
        column_descriptions={c.name: c.description for c in columns if c.description},
    )
    if node.contract.enforced:
        required = [name for name, types in _constraints(node) if "not_null" in types]
        keys = tuple(name for name, types in _constraints(node) if "primary_key" in types)
        grains = (keys,) if keys else ()
        model = replace(model, audits=tuple(not_null(required)), grains=grains)
    if isinstance(kind, Seed):
        return _seed(node, model, context), {}, (*unread, *misread)
    if is_source:
        return model, {}, (*unread, *misread)
    rendered = _query(node, unit, context)
    context.parsed.keep(rendered.sql, rendered.tree)
    reads = dict(rendered.reads)
    reads.pop(model.name, None)
    model = replace(model, query=rendered.sql, depends_on=tuple(sorted(reads)))
    return model, reads, (*unread, *misread)


def _name(node: Node, context: Context, location: SourceLocation) -> ModelName:
    try:
        return context.names.model_name(node.relation)
    except UsageError as error:
        raise ProjectError(error.message, hint=error.hint, location=location) from None


def _query(node: Node, unit: Unit, context: Context) -> Rendered:
    source = _source(node, context)
    return _rendered(source, without_ephemeral(source, unit.ephemeral, context.dialect), context)


def _source(node: Node, context: Context) -> SourceText:
    path = context.folder / node.compiled_path if node.compiled_path else context.file(node)
    source = SourceText(path, node.compiled_code or "")
    refuse_too_deep(source)
    return source


def _rendered(
    source: SourceText, code: Expanded, context: Context, *, what: str = "query"
) -> Rendered:
    """Write code in Spark SQL; nothing in it is a macro, so that it is not expanded."""
    scope = MacroScope({}, {}, context.dialect, names=context.names)
    return render(Expander(source, scope), code, context.names, what=what)


def _test(
    test: Node, form: str, unit: Unit, context: Context
) -> tuple[str, dict[ModelName, SourceLocation]]:
    """Write a test's query over the rows of its model that are to be published."""
    source = _source(test, context)
    code = without_ephemeral(source, unit.ephemeral, context.dialect)
    node = unit.node
    if node.relation_name:
        this_model = placeholder("this_model")
        code = with_this_model(code, node.relation_name, this_model, node.relation[-1])
    rendered = _rendered(source, code, context, what=f"test {test.name}")
    reads = dict(rendered.reads)
    reads.pop(ModelName(context.names.default_namespace, placeholder("this_model")), None)
    return form.replace("{}", rendered.sql), reads


def _columns(
    node: Node, context: Context, location: SourceLocation
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Return the columns that are described, and what of them cannot be read."""
    found, misread = [], []
    for column in node.columns.values():
        type_ = None
        if column.data_type:
            try:
                type_ = _type(column.data_type, context, location)
            except ProjectError:
                if node.contract.enforced:
                    raise
                misread.append("types of columns that are no types")
        found.append(Column(column.name, type_, column.description or None))
    return tuple(found), tuple(misread)


def _type(text: str, context: Context, location: SourceLocation) -> str:
    def fail(message: str, hint: str | None) -> ProjectError:
        return ProjectError(message, hint=hint, location=location)

    return canonical_type(text, context.dialect, fail)


def _constraints(node: Node) -> Iterator[tuple[str, set[str]]]:
    def types(column: DbtColumn) -> set[str]:
        return {str(one.get("type")) for one in column.constraints}

    yield from ((name, types(column)) for name, column in node.columns.items())


def _freshness(node: Node) -> tuple[str, ...]:
    limits = ((node.freshness or {}).get(key) or {} for key in ("warn_after", "error_after"))
    return ("freshness",) if any(limit.get("count") for limit in limits) else ()


def _seed(node: Node, model: Model, context: Context) -> Model:
    """Fill in a seed from its file: its columns are those of the first line."""
    path = context.settings.root / context.file(node)
    given = {str(k).lower(): str(v) for k, v in (node.config.get("column_types") or {}).items()}
    if not path.is_file():
        other = node.package_name != context.package
        raise ProjectError(
            f"the file of the seed '{node.name}' is not there",
            hint="run `dbt deps`" if other else "run `dbt compile`",
            location=SourceLocation(context.file(node)),
        )
    assert isinstance(model.kind, Seed)
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        names = next(csv.reader(file, delimiter=model.kind.delimiter), [])
    columns = tuple(
        Column(
            name.strip(),
            _type(given[name.strip().lower()], context, model.location)
            if name.strip().lower() in given
            else None,
            model.column_descriptions.get(name.strip()),
        )
        for name in names
        if name.strip()
    )
    model = replace(model, columns=columns)
    return load_seed(context.settings, model, model.location.path)
