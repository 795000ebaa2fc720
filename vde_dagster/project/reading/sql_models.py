"""SQL model files: `MODEL (…); SELECT …` becomes a `Model`, or several with blueprints.

Each blueprint sets variables of the header and of all following statements.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import closest, did_you_mean, suggest
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.kinds import Kind, View
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.macros.scope import MacroScope
from vde_dagster.project.macros.variables import KIND_NAME, PROMOTING, TABLE_PARTS, sql_literal
from vde_dagster.project.model import LoadedFile, LoadedModel, Model
from vde_dagster.project.properties.header_macros import expanded_header, written_kind
from vde_dagster.project.properties.model_properties import ModelProperties, read_model_properties
from vde_dagster.project.property_value import Value
from vde_dagster.project.reading.audits import read_audit, read_audits, read_call, read_signals
from vde_dagster.project.reading.file_context import (
    FileContext,
    loaded_models,
    model_name,
    read_name,
    with_kind_files,
)
from vde_dagster.project.reading.model_defaults import default_statements
from vde_dagster.project.reading.rendering import render, render_last_statement, render_statement
from vde_dagster.project.reading.statements import (
    JINJA_QUERY,
    JINJA_STATEMENT,
    Block,
    Statement,
    read_blocks,
)
from vde_dagster.project.reading.temporary_views import with_temporary_views
from vde_dagster.sql.edits import Expanded, ExpandedSource
from vde_dagster.sql.scanner import SourceText, Token
from vde_dagster.sql.trees import QUERY_WORDS, placeholder


def load_sql_file(path: Path, text: str, context: FileContext) -> LoadedFile:
    """Read a file with `MODEL (…); SELECT …` blocks, and audits between them."""
    source, blocks = read_blocks(path, text, context.settings.dialect)
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
    for audit in inline:
        if audit.standalone:
            raise ProjectError(
                f"standalone audit {audit.name} must not be in a file of models",
                hint="move it to a file in audits/",
                location=audit.location,
            )
    here = replace(context, audits={**context.audits, **{audit.name: audit for audit in inline}})
    models: list[LoadedModel] = []
    mistakes: list[ProjectError] = []
    for block in blocks:
        if block.header.word != "MODEL":
            continue
        try:
            scope = here.scope(context.settings.dialect)
            scope.variables |= written_kind(context.defaults, f"'{View().name}'")
            for made, variables in _blueprint_blocks(source, block, scope):
                for one in _load_block(source, made, replace(here, variables=variables)):
                    if one.model.source != text:  # It no longer contains Jinja comments.
                        one = replace(one, model=replace(one.model, source=text))
                    models.append(one)
        except ProjectError as error:
            mistakes.append(error)
    if mistakes:
        raise ProjectError.combine(mistakes)
    uses = tuple(used for one in models for used in one.model.kind.files)
    return LoadedFile(path, tuple(models), uses=uses)


def _load_block(source: SourceText, block: Block, context: FileContext) -> list[LoadedModel]:
    header = block.header
    properties = read_model_properties(header, context.settings, context.defaults_for(header))
    if not properties.enabled:
        return []
    written, error = model_name(header, properties, source.path, context.settings)
    name = read_name(written, context.names, error)
    trusted = frozenset(properties.fields["dialect_trust"])
    context = replace(context, model=name, trusted=trusted)
    scope = context.scope(properties.dialect)
    scope.variables[KIND_NAME] = sql_literal(properties.kind.name)
    expander = Expander(source, scope)
    fields = dict(properties.fields)
    reads: dict[ModelName, SourceLocation] = {}
    if properties.kind.has_query:
        parts = [(s, expanded) for s in block.statements for expanded in s.expand(expander)]
        pre, query, post = _find_query(source, block, parts)
        views = with_temporary_views(expander, context.names, pre, query, post)
        before, after = views.before, views.after
        _check_variables(source, views.query)
        rendered = render(expander, views.query, context.names)
        context.parsed.keep(rendered.sql, rendered.tree)
        reads = dict(rendered.reads)
        fields |= {"query": rendered.sql, "origins": rendered.origins}
        fields["reads_itself"] = reads.pop(name, None) is not None
        for value in properties.depends_on:
            parent = read_name(value.identifier(), context.names, value.error)
            reads.setdefault(parent, value.location())
        _check_named_columns(properties, block.header.properties.get("kind"))
        fields["signals"] = read_signals(map(read_call, properties.signals), context.signals)
        # Without column_descriptions, the query's comments describe columns, as in SQLMesh.
        fields["column_descriptions"] = fields["column_descriptions"] or rendered.comments
    else:
        before, after = _read_statements(block, properties.kind, expander)
    if properties.kind.has_query or properties.kind.owns_table:
        before = (*default_statements_in("pre_statements", expander, context), *before)
        after = (*default_statements_in("post_statements", expander, context), *after)
    later = _read_virtual_update(source, block, properties, scope)
    if properties.kind.is_shown:
        later = (*default_statements_in("on_virtual_update", expander, context), *later)
    audits, audit_reads = read_audits(
        map(read_call, properties.audits), context.audit_context(scope)
    )
    model = Model(
        name=name,
        kind=properties.kind,
        location=source.location(block.header.start),
        source=source.text,
        depends_on=tuple(sorted(reads)),
        audits=audits,
        pre_statements=before,
        post_statements=after,
        on_virtual_update=later,
        dialect=properties.dialect,
        **fields,
    )
    model = with_kind_files(model, source.path, context.settings, context.materializations)
    return loaded_models(model, {**audit_reads, **reads}, context.known_columns)


def default_statements_in(key: str, expander: Expander, context: FileContext) -> tuple[str, ...]:
    """Return the statements that the settings add to every model, as Spark SQL."""
    write = render_last_statement if key == "on_virtual_update" else render_statement
    made = []
    for source in default_statements(context.settings, key):
        scope = context.scope(expander.scope.dialect)
        if key == "on_virtual_update":
            scope = scope.in_stage(PROMOTING)
        one = Expander(source, scope)
        made.append(write(one, one.expand()))
    return tuple(made)


def _read_virtual_update(
    source: SourceText, block: Block, properties: ModelProperties, scope: MacroScope
) -> tuple[str, ...]:
    if block.on_virtual_update and not properties.kind.is_shown:
        raise source.error(
            f"a model of kind {properties.kind.name} has no view to run statements on",
            block.on_virtual_update[0].start,
            "remove the block",
        )
    expander = Expander(source, scope.in_stage(PROMOTING))
    texts = (one for statement in block.on_virtual_update for one in statement.expand(expander))
    return tuple(render_last_statement(expander, one) for one in texts)


def _find_query(
    source: SourceText, block: Block, parts: list[tuple[Statement, Expanded]]
) -> tuple[list[Expanded], Expanded, list[Expanded]]:
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
            hint = did_you_mean(parts[-1][0].first, near) if near else "end the file with a SELECT"
        raise source.error("the model has no query", where, hint)
    if len(found) > 1:
        raise source.error(
            "this is the second query", parts[found[1]][1].origin(0), "write one SELECT per model"
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
            "use other models; @this_model is only for audits and statements",
        )
    found = query.text.find(placeholder(TABLE_PARTS["table_name"]))
    if found >= 0:
        raise source.error(
            "@RESOLVE_TEMPLATE refers to the model's table, which is unknown in its query",
            query.origin(found),
            "use it only in statements",
        )


def _check_named_columns(properties: ModelProperties, kind: Value | None) -> None:
    declared = [column.name for column in properties.fields["columns"]]
    lowered = {name.lower() for name in declared}
    for name in properties.kind.named_columns:
        if declared and name.lower() not in lowered and kind is not None:
            raise kind.error(
                f"column '{name}' of kind {properties.kind.name} is not declared",
                suggest(name, declared, "columns"),
            )


def _blueprint_blocks(
    source: SourceText, block: Block, scope: MacroScope
) -> list[tuple[Block, dict[str, str]]]:
    value = block.header.properties.get("blueprints")
    found = [{}] if value is None else read_blueprints(_expand_blueprints(source, value, scope))
    return [
        (replace(block, header=expanded_header(block.header, scope, own)), own) for own in found
    ]


def read_blueprints(value: Value) -> list[dict[str, str]]:
    """Read `((customer := a, region := 'x'), (…))` as SQL texts by variable, per blueprint."""
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
        raise value.error("the list of blueprints is empty", "write ((variable := value, …), (…))")
    return found


def _expand_blueprints(source: SourceText, value: Value, scope: MacroScope) -> Value:
    if not any(token.text == "@" for token in value.tokens):
        return value
    expanded = Expander(source, scope).expand(value.tokens[0].start, value.tokens[-1].end)
    inner = ExpandedSource(source.path, expanded.text, source, expanded)
    return Value(inner, value.name, tuple(Token.split(inner)), 0)


_INSERT_SEED = re.compile(r"@insert_seed\s*\(\s*\)\s*", re.IGNORECASE)
"""Macro between a seed's statements; it marks the point at which the seed's rows are written."""


def _read_statements(
    block: Block, kind: Kind, expander: Expander
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found: tuple[list[str], list[str]] = ([], [])
    behind = 0
    source = expander.source
    for statement in block.statements:
        if not kind.owns_table:
            raise source.error(f"a model of kind {kind.name} has no query", statement.start)
        if _INSERT_SEED.fullmatch(source.text[statement.start : statement.end]):
            if behind:
                raise source.error("@INSERT_SEED() is given twice", statement.start)
            behind = 1
            continue
        for expanded in statement.expand(expander):
            text = expanded.text.lstrip().upper()
            if statement.first == JINJA_QUERY or text.startswith(QUERY_WORDS):
                raise source.error(f"a model of kind {kind.name} has no query", statement.start)
            found[behind].append(render_statement(expander, expanded))
    return tuple(found[0]), tuple(found[1])
