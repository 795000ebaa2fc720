"""Context shared by all model files of a project: macros, audits, defaults, code.

SQLGlot is imported at its first use, because plug-ins import this module before files are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import suggest
from vde_dagster.errors import ProjectError, SourceLocation, Unknown, UsageError
from vde_dagster.project.kinds import Custom, Seed
from vde_dagster.project.macros.known_columns import Columns, KnownColumns
from vde_dagster.project.macros.scope import MacroScope
from vde_dagster.project.macros.variables import AUDITING, EVALUATING, STAGE, bare, sql_literal
from vde_dagster.project.model import LoadedModel, Model, PythonSource
from vde_dagster.project.properties.header import Header
from vde_dagster.project.properties.model_properties import ModelProperties
from vde_dagster.project.property_value import Value
from vde_dagster.project.settings import Settings
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.scanner import SourceText
from vde_dagster.sql.trees import ParsedQueries

if TYPE_CHECKING:
    from sqlglot import exp

    from vde_dagster.project.reading.audits import AuditContext, AuditDefinition, SignalDefinition


@dataclass(frozen=True, slots=True)
class FileContext:
    """Macros, audits, defaults and code of other files, for reading one file.

    Args:
        macros: Python macros.
        parsed: Receives the syntax trees of the models' queries.
        materializations: Functions that write tables; several may have the same name.
        variables: SQL text of a blueprint's variables.
        values: Lists and tables among these variables, as Python values.
        known_columns: Columns of models that were read before.
        templates: Texts of files with Jinja macros, by path.
        model: The model that is being read.
        trusted: The model's `dialect_trust`: functions assumed to give equal results on Spark.
    """

    settings: Settings
    names: TableNames
    macros: Mapping[str, Callable[..., Any]]
    audits: Mapping[str, AuditDefinition]
    parsed: ParsedQueries = field(default_factory=ParsedQueries)
    signals: Mapping[str, SignalDefinition] = field(default_factory=dict)
    materializations: Mapping[str, tuple[PythonSource, ...]] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    known_columns: KnownColumns = field(default_factory=KnownColumns)
    defaults: Mapping[str, Value] = field(default_factory=dict)
    templates: Mapping[str, str] = field(default_factory=dict)
    model: ModelName | None = None
    trusted: frozenset[str] = frozenset()

    def scope(self, dialect: str) -> MacroScope:
        """Return the macros and variables for the query of one model."""
        values = {key.lower(): value for key, value in self.settings.variables.items()}
        texts = {STAGE: f"'{EVALUATING}'"}
        texts |= {key: sql_literal(value, dialect) for key, value in values.items()}
        texts |= self.variables
        values |= {key: bare(value) for key, value in self.variables.items()}
        values |= self.values
        return MacroScope(
            self.macros,
            texts,
            dialect,
            settings=values,
            dialect_trust=self.trusted | self.settings.trusted_functions,
            names=self.names,
            known_columns=self.known_columns,
            templates=self.templates,
            model=self.model,
        )

    def defaults_for(self, header: Header) -> Mapping[str, Value]:
        """Return the default properties for a model with this header."""
        if not self.defaults:
            return self.defaults
        from vde_dagster.project.reading.model_defaults import default_properties, names_kinds

        if not names_kinds(self.settings):
            return self.defaults
        return default_properties(self.settings, self.scope(self.settings.dialect), header)

    def audit_context(self, scope: MacroScope) -> AuditContext:
        from vde_dagster.project.reading.audits import AuditContext

        return AuditContext(self.audits, scope.in_stage(AUDITING), self.names)


def model_name(
    header: Header, properties: ModelProperties, path: Path, settings: Settings
) -> tuple[str, Callable[[str, str | None], ProjectError]]:
    """Return a model's name, and a function that creates errors at the name's place.

    A model whose header has no name is named by the last three parts of its path:
    `models/deep/sales/orders.sql` is `deep.sales.orders`, as in SQLMesh.
    """
    if properties.name:
        return properties.name, header.properties["name"].error

    def error(message: str, hint: str | None = None) -> ProjectError:
        return header.source.error(message, header.start, hint)

    inside = path.with_suffix("").relative_to(settings.models_dir).parts
    return ".".join(f"`{part}`" for part in inside[-3:]), error


def read_name(
    text: str, names: TableNames, error: Callable[[str, str | None], ProjectError]
) -> ModelName:
    """Parse a model's name, or raise the error that `error` creates for an invalid name."""
    try:
        return names.read(text)
    except UsageError as problem:
        raise error(problem.message, problem.hint) from None


def with_kind_files(
    model: Model, path: Path, settings: Settings, code: Mapping[str, tuple[PythonSource, ...]]
) -> Model:
    """Add the CSV file's hashes to a SEED model, and the writer's code to a CUSTOM model.

    `path` is the model's file, relative to the root; `code` has writers by lower-case name.
    """
    if isinstance(model.kind, Seed):
        from vde_dagster.project.reading.seeds import load_seed

        return load_seed(settings, model, path)
    return _add_code(model, code) if isinstance(model.kind, Custom) else model


@runtime_checkable
class ReplacesModel(Protocol):
    """A kind that turns one model of a file into several models."""

    def expanded_models(
        self, model: Model, output_columns: Callable[[exp.Expr], list[str] | None]
    ) -> Sequence[Model]:
        """Return the models that replace a model of this kind.

        `output_columns` returns the columns of a query, given as the tree of `read_query`; None if
        the files do not determine them.
        """


def loaded_models(
    model: Model, reads: dict[ModelName, SourceLocation], known: KnownColumns
) -> list[LoadedModel]:
    """Return the models for one definition: the model, or several if its kind replaces it."""
    from vde_dagster.project.reading.columns import QueryColumns, UnknownColumnsError

    def parent_columns(name: ModelName) -> Columns:
        columns = known.find(name)
        if columns is None:
            raise UnknownColumnsError
        return columns

    def output_columns(query: exp.Expr) -> list[str] | None:
        try:
            return QueryColumns(parent_columns).column_names(query, {})
        except UnknownColumnsError:
            return None

    if not isinstance(model.kind, ReplacesModel):
        return [LoadedModel(model, reads)]
    made = model.kind.expanded_models(model, output_columns)
    if len(made) == 1:
        return [LoadedModel(made[0], reads)]
    return [
        LoadedModel(
            one,
            {
                name: reads.get(name, model.location)
                for name in (*one.depends_on, *one.audited_against)
            },
        )
        for one in made
    ]


def _add_code(model: Model, known: Mapping[str, tuple[PythonSource, ...]]) -> Model:
    assert isinstance(model.kind, Custom)
    wanted = model.kind.materialization
    found = known.get(wanted.lower(), ())
    if len(found) > 1:
        places = " and ".join(one.entrypoint.rpartition(":")[0] for one in found)
        raise ProjectError(
            f"the materialization '{wanted}' is defined in {places}",
            hint="rename one of them",
            location=model.location,
        )
    if not found:
        hint = f"define a function with @materialization('{wanted}') in materializations/"
        raise ProjectError(
            f"{model.name} uses the materialization '{wanted}', which no file defines",
            hint=suggest(wanted, known, "materializations") if known else hint,
            location=_materialization_place(model, wanted),
            unknown=Unknown("materialization", wanted),
        )
    code, outside = (tuple(sorted(one.items())) for one in (found[0].files, found[0].outside))
    kind = replace(model.kind, entrypoint=found[0].entrypoint, code=code, outside=outside)
    return replace(model, kind=kind)


def _materialization_place(model: Model, wanted: str) -> SourceLocation:
    source = SourceText(model.location.path, model.source)
    lines = model.source.splitlines(keepends=True)[: (model.location.line or 1) - 1]
    named = re.compile(rf"materialization\W+{re.escape(wanted)}", re.IGNORECASE)
    found = named.search(model.source, sum(map(len, lines)))
    return model.location if found is None else source.location(found.end() - len(wanted))
