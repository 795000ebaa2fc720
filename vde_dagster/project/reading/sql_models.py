"""SQL model files: `MODEL (…); SELECT …` becomes a `Model`, with blueprints several of them.

Each blueprint gives values to variables, which are macro variables in the header and in everything
that follows it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import closest, suggest
from vde_dagster.errors import ProjectError, SourceLocation, UsageError
from vde_dagster.project.kinds import Kind, View
from vde_dagster.project.kinds.incremental import FoundCode
from vde_dagster.project.macros.expansion import Expander, MacroScope
from vde_dagster.project.macros.relation_columns import KnownColumns
from vde_dagster.project.macros.variables import (
    AUDITING,
    EVALUATING,
    KIND_NAME,
    PROMOTING,
    STAGE,
    TABLE_PARTS,
    bare,
    sql_literal,
)
from vde_dagster.project.model import LoadedFile, LoadedModel, Model
from vde_dagster.project.properties.header import Header, Value
from vde_dagster.project.properties.header_macros import expanded_header, written_kind
from vde_dagster.project.properties.model_properties import ModelProperties, read_model_properties
from vde_dagster.project.reading.audits import (
    AuditContext,
    AuditDefinition,
    SignalDefinition,
    read_audit,
    read_audits,
    read_call,
    read_signals,
)
from vde_dagster.project.reading.completion import completed
from vde_dagster.project.reading.model_defaults import (
    default_properties,
    default_statements,
    names_kinds,
)
from vde_dagster.project.reading.rendering import (
    Rendered,
    render,
    render_last_statement,
    render_statement,
)
from vde_dagster.project.reading.statements import (
    JINJA_QUERY,
    JINJA_STATEMENT,
    Block,
    Statement,
    split_blocks,
)
from vde_dagster.project.reading.temporary_views import with_temporary_views
from vde_dagster.project.settings import Settings
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.expanded import Expanded, ExpandedSource
from vde_dagster.sql.scanner import BACKSLASH_DIALECTS, SourceText, tokens_of
from vde_dagster.sql.templates import with_dash_comments, without_jinja_comments
from vde_dagster.sql.trees import QUERY_WORDS, ParsedQueries, placeholder


@dataclass(frozen=True, slots=True)
class FileContext:
    """The context shared by all files of a project.

    Args:
        macros: Python macros by name in lower case.
        audits: Custom audits by name.
        parsed: Takes the trees of the models' queries.
        signals: Python signals by name in lower case.
        materializations: Functions that write tables, by name in lower case; several of one name
            are a mistake of whoever asks for it.
        variables: SQL text of the variables of a blueprint, by name in lower case.
        values: Those of them that are lists or tables, as Python has them.
        known_columns: Columns of models that were read before.
        defaults: Properties that hold where a header does not give them.
        templates: Texts of files of Jinja macros, by path.
        model: The model that is being read.
    """

    settings: Settings
    names: TableNames
    macros: Mapping[str, Callable[..., Any]]
    audits: Mapping[str, AuditDefinition]
    parsed: ParsedQueries = field(default_factory=ParsedQueries)
    signals: Mapping[str, SignalDefinition] = field(default_factory=dict)
    materializations: Mapping[str, tuple[FoundCode, ...]] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    known_columns: KnownColumns = field(default_factory=KnownColumns)
    defaults: Mapping[str, Value] = field(default_factory=dict)
    templates: Mapping[str, str] = field(default_factory=dict)
    model: ModelName | None = None

    def scope(self, dialect: str) -> MacroScope:
        """Return fresh macro variables for one model."""
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
            names=self.names,
            known_columns=self.known_columns,
            templates=self.templates,
            model=self.model,
        )

    def defaults_for(self, header: Header) -> Mapping[str, Value]:
        """Return the properties that hold where a model's header does not give them."""
        if not (self.defaults and names_kinds(self.settings)):
            return self.defaults
        return default_properties(self.settings, self.scope(self.settings.dialect), header)

    def audit_context(self, scope: MacroScope) -> AuditContext:
        """Return the context of a model's audit calls, with its macros and variables."""
        return AuditContext(self.audits, scope.in_stage(AUDITING), self.names)

    def with_variables(
        self, variables: Mapping[str, str], values: Mapping[str, Any] | None = None
    ) -> FileContext:
        """Return the same for one model of a blueprint."""
        if not variables:
            return self
        return dataclasses.replace(self, variables=variables, values=values or {})


def load_sql_file(path: Path, text: str, context: FileContext) -> LoadedFile:
    """Read a file of `MODEL` blocks (and the `AUDIT` blocks among them).

    Args:
        path: The file, relative to the project's root.
        text: Its text.
        context: What the project's files share.

    Raises:
        ProjectError: Anything in it is wrong; points at the place.
    """
    backslash = context.settings.dialect in BACKSLASH_DIALECTS
    source = with_dash_comments(SourceText(path, text), context.settings.dialect)
    source = without_jinja_comments(source, backslash=backslash)
    blocks = split_blocks(source, context.settings.dialect)
    if not blocks:
        raise ProjectError(
            "the file has no MODEL header",
            hint="begin it with MODEL (name schema.model);",
            location=SourceLocation(path, 1),
        )
    inline = [
        read_audit(block, source, context.settings.dialect)
        for block in blocks
        if block.header.word == "AUDIT"
    ]
    here = context
    for audit in inline:
        if audit.standalone:
            raise ProjectError(
                f"audit {audit.name} is standalone, and stands in a file of models",
                hint="move it to a file of audits/",
                location=audit.location,
            )
    if inline:
        audits = {**context.audits, **{audit.name: audit for audit in inline}}
        here = dataclasses.replace(context, audits=audits)
    models: list[LoadedModel] = []
    uses: list[str] = []
    mistakes: list[ProjectError] = []
    for block in blocks:
        if block.header.word == "MODEL":
            try:
                scope = here.scope(context.settings.dialect)
                scope.variables |= written_kind(context.defaults, f"'{View().name}'")
                for made in blueprints_of(source, block, scope):
                    loaded = _load_block(source, made.block, here.with_variables(made.variables))
                    if loaded is not None:
                        if source.text != text:  # Without comments of Jinja.
                            whole = dataclasses.replace(loaded.model, source=text)
                            loaded = dataclasses.replace(loaded, model=whole)
                        models.append(loaded)
                        uses.extend(loaded.model.kind.files)
            except ProjectError as error:
                mistakes.append(error)
    if mistakes:
        raise ProjectError.of(mistakes)
    return LoadedFile(path, tuple(models), uses=tuple(uses))


def _load_block(source: SourceText, block: Block, context: FileContext) -> LoadedModel | None:
    header = block.header
    properties = read_model_properties(header, context.settings, context.defaults_for(header))
    if not properties.enabled:
        return None
    written, error = name_of(header, properties, source.path, context.settings)
    name = read_name(written, context.names, error)
    context = dataclasses.replace(context, model=name)
    scope = context.scope(properties.dialect)
    scope.variables[KIND_NAME] = sql_literal(properties.kind.name)
    expander = Expander(source, scope)
    around: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    if properties.kind.has_query:
        parts = [(s, expanded) for s in block.statements for expanded in s.expand(expander)]
    else:
        around = statements_around(block, properties.kind, expander)
        if properties.kind.owns_table:
            before = _default_statements("pre_statements", expander, context)
            after = _default_statements("post_statements", expander, context)
            around = (*before, *around[0]), (*after, *around[1])
    shown = Expander(source, scope.in_stage(PROMOTING))
    later = _on_virtual_update(source, block, properties, shown)
    if properties.kind.is_shown:
        later = (*_default_statements("on_virtual_update", expander, context), *later)
    if around is not None:
        return _without_query(source, block, properties, name, context, (*around, later))
    pre, query, post = _classify(source, block, parts)
    views = with_temporary_views(expander, context.names, pre, query, post)
    query = views.query
    _check_variables(source, query)
    rendered = render(expander, query, context.names)
    context.parsed.keep(rendered.sql, rendered.tree)
    reads = dict(rendered.reads)
    reads_itself = reads.pop(name, None) is not None
    for value in properties.depends_on:
        parent = read_name(value.identifier(), context.names, value.error)
        reads.setdefault(parent, value.location())
    audits, audit_reads = read_audits(
        [read_call(value) for value in properties.audits], context.audit_context(expander.scope)
    )
    _check_named_columns(properties, block.header.properties.get("kind"))
    fields = dict(properties.fields)
    fields["signals"] = read_signals(list(map(read_call, properties.signals)), context.signals)
    fields["column_descriptions"] = _described(fields, rendered)
    model = Model(
        name=name,
        kind=properties.kind,
        location=source.location(block.header.start),
        query=rendered.sql,
        origins=rendered.origins,
        source=source.text,
        depends_on=tuple(sorted(reads)),
        audits=audits,
        pre_statements=(*_default_statements("pre_statements", expander, context), *views.before),
        post_statements=(*_default_statements("post_statements", expander, context), *views.after),
        on_virtual_update=later,
        reads_itself=reads_itself,
        **fields,
    )
    model = completed(model, source.path, context.settings, context.materializations)
    return LoadedModel(model, {**audit_reads, **reads})


def name_of(
    header: Header, properties: ModelProperties, path: Path, settings: Settings
) -> tuple[str, Callable[[str, str | None], ProjectError]]:
    """Return a model's name as it is written, or its path where it has none; and its errors.

    `models/deep/sales/orders.sql` is `deep.sales.orders`: the last three parts, as in SQLMesh.
    """
    if properties.name:
        return properties.name, header.properties["name"].error

    def error(message: str, hint: str | None = None) -> ProjectError:
        return header.source.error(message, header.start, hint)

    inside = path.with_suffix("").relative_to(settings.models_dir).parts
    return ".".join(f"`{part}`" for part in inside[-3:]), error


def _default_statements(key: str, expander: Expander, context: FileContext) -> tuple[str, ...]:
    """Read the statements that the settings have for every model."""
    write = render_last_statement if key == "on_virtual_update" else render_statement
    made = []
    for source in default_statements(context.settings, key):
        scope = context.scope(expander.scope.dialect)
        if key == "on_virtual_update":
            scope = scope.in_stage(PROMOTING)
        one = Expander(source, scope)
        made.append(write(one, one.expand(0, len(source.text))))
    return tuple(made)


def _on_virtual_update(
    source: SourceText, block: Block, properties: ModelProperties, expander: Expander
) -> tuple[str, ...]:
    """Read the statements that run once an environment shows the model."""
    if block.on_virtual_update and not properties.kind.is_shown:
        raise source.error(
            f"a model of kind {properties.kind.name} has no view to run statements on",
            block.on_virtual_update[0].start,
            "remove the block",
        )
    texts = (one for statement in block.on_virtual_update for one in statement.expand(expander))
    return tuple(render_last_statement(expander, one) for one in texts)


def _without_query(
    source: SourceText,
    block: Block,
    properties: ModelProperties,
    name: ModelName,
    context: FileContext,
    statements: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]],
) -> LoadedModel:
    calls = [read_call(value) for value in properties.audits]
    audit_context = context.audit_context(context.scope(properties.dialect))
    audits, reads = read_audits(calls, audit_context)
    model = Model(
        name=name,
        kind=properties.kind,
        location=source.location(block.header.start),
        source=source.text,
        audits=audits,
        pre_statements=statements[0],
        post_statements=statements[1],
        on_virtual_update=statements[2],
        **properties.fields,
    )
    model = completed(model, source.path, context.settings, context.materializations)
    return LoadedModel(model, reads)


def _classify(
    source: SourceText, block: Block, parts: list[tuple[Statement, Expanded]]
) -> tuple[list[Expanded], Expanded, list[Expanded]]:
    """Tell the query from the statements before and after it."""
    found = [
        index
        for index, (statement, expanded) in enumerate(parts)
        if statement.first == JINJA_QUERY
        or (
            statement.first != JINJA_STATEMENT
            and expanded.text.lstrip().upper().startswith(QUERY_WORDS)
        )
    ]
    if not found:
        if not parts:
            where, hint = block.header.start, "end the file with a SELECT"
        else:
            where = parts[-1][0].start
            near = closest(parts[-1][0].first, ("SELECT", "WITH"))
            hint = f"did you mean '{near}'?" if near else "end the file with a SELECT"
        raise source.error("the model has no query", where, hint)
    if len(found) > 1:
        raise source.error(
            "the model has two queries", parts[found[1]][1].origin(0), "one file, one SELECT"
        )
    at = found[0]
    texts = [expanded for _, expanded in parts]
    return texts[:at], texts[at], texts[at + 1 :]


def _check_variables(source: SourceText, query: Expanded) -> None:
    found = query.text.find(placeholder("this_model"))
    if found >= 0:
        raise source.error(
            "@this_model means the model's table, which its query cannot read",
            query.origin(found),
            "name other models; @this_model is for audits and statements",
        )
    found = query.text.find(placeholder(TABLE_PARTS["table_name"]))
    if found >= 0:
        raise source.error(
            "@RESOLVE_TEMPLATE names the model's table, which its query cannot know",
            query.origin(found),
            "use it in statements",
        )


def _check_named_columns(properties: ModelProperties, kind: Value | None) -> None:
    """Check that a kind's columns are among the declared ones, where any are declared."""
    declared = [column.name for column in properties.fields["columns"]]
    lowered = {name.lower() for name in declared}
    for name in properties.kind.named_columns:
        if declared and name.lower() not in lowered and kind is not None:
            raise kind.error(
                f"column '{name}' of kind {properties.kind.name} is not declared",
                suggest(name, declared, "columns"),
            )


def _described(fields: dict[str, Any], rendered: Rendered) -> dict[str, str]:
    """Take comments in the query as descriptions where none are declared, as SQLMesh does."""
    declared: dict[str, str] = fields["column_descriptions"]
    return declared or rendered.comments


def read_name(
    text: str, names: TableNames, error: Callable[[str, str | None], ProjectError]
) -> ModelName:
    """Read a model's name as it is written.

    Args:
        text: The text.
        error: Makes an error with the name's place.
    """
    try:
        return names.read(text)
    except UsageError as problem:
        raise error(problem.message, problem.hint) from None


@dataclass(frozen=True, slots=True)
class Blueprint:
    """One model of a block.

    Args:
        block: The block with this model's header.
        variables: SQL text by variable name in lower case.
    """

    block: Block
    variables: Mapping[str, str]


def blueprints_of(source: SourceText, block: Block, scope: MacroScope) -> list[Blueprint]:
    """Return the models that a block defines: one, or one for each of its blueprints.

    Args:
        block: A `MODEL` block.
        scope: Macros and variables that `blueprints` itself may use.

    Raises:
        ProjectError: `blueprints` is not a list of values.
    """
    value = block.header.properties.get("blueprints")
    found = [{}] if value is None else read_blueprints(_without_macros(source, value, scope))
    return [
        Blueprint(replace(block, header=expanded_header(block.header, scope, own)), own)
        for own in found
    ]


def read_blueprints(value: Value) -> list[dict[str, str]]:
    """Read `((customer := a, region := 'x'), (…))`.

    Raises:
        ProjectError: It is something else.
    """
    items = value.items()
    if items and any(not item.tokens or item.tokens[0].text != "(" for item in items):
        items = [value]
    found = []
    for item in items:
        pairs = item.pairs(":=")
        if not pairs:
            raise item.error("a blueprint has no values", "write (variable := value, …)")
        for name, given in pairs:
            if not given.tokens:
                raise given.error(f"the variable '{name}' of a blueprint has no value")
        found.append({name.lower(): given.raw for name, given in pairs})
    if not found:
        raise value.error("there is no blueprint", "write ((variable := value, …), (…))")
    return found


def _without_macros(source: SourceText, value: Value, scope: MacroScope) -> Value:
    """Expand the macros that make a list of blueprints."""
    if not any(token.text == "@" for token in value.tokens):
        return value
    expanded = Expander(source, scope).expand(value.tokens[0].start, value.tokens[-1].end)
    inner = ExpandedSource(source.path, expanded.text, source, expanded)
    tokens = tuple(tokens_of(inner))
    return Value(inner, value.name, tokens, 0)


_INSERT_SEED = re.compile(r"@insert_seed\s*\(\s*\)\s*", re.IGNORECASE)
"""Stands between the statements before a seed's rows are written and those behind."""


def statements_around(
    block: Block, kind: Kind, expander: Expander
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read the statements before and behind what is written without a query.

    Args:
        block: The model's block.
        kind: Its kind, which has no query.
        expander: Knows the file, the dialect, macros and variables.

    Raises:
        ProjectError: There is a query among them, or nothing is written; points at the place.
    """
    found: tuple[list[str], list[str]] = ([], [])
    behind = 0
    source = expander.source
    for statement in block.statements:
        if not kind.owns_table:
            raise source.error(f"a model of kind {kind.name} has no query", statement.start)
        if _INSERT_SEED.fullmatch(source.text[statement.start : statement.end]):
            if behind:
                raise source.error("@INSERT_SEED() stands here twice", statement.start)
            behind = 1
            continue
        for expanded in statement.expand(expander):
            text = expanded.text.lstrip().upper()
            if statement.first == JINJA_QUERY or text.startswith(QUERY_WORDS):
                raise source.error(f"a model of kind {kind.name} has no query", statement.start)
            found[behind].append(render_statement(expander, expanded))
    return tuple(found[0]), tuple(found[1])
