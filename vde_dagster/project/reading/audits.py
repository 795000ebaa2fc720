"""Audits and signals: custom `AUDIT (…)` definitions, and models' calls of both."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import suggest
from vde_dagster.errors import ProjectError, SourceLocation, Unknown, UsageError
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.macros.functions import list_items
from vde_dagster.project.macros.scope import MacroScope
from vde_dagster.project.macros.variables import TABLE_PARTS
from vde_dagster.project.model import Audit, PythonSource, Signal
from vde_dagster.project.property_value import Value
from vde_dagster.project.reading.builtin_audits import BUILTIN_AUDITS, PLUGINS, BuiltinAudit, Items
from vde_dagster.project.reading.rendering import render
from vde_dagster.project.reading.statements import Block, Statement
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.scanner import SourceText

_PROPERTIES = (
    *("name", "blocking", "dialect", "defaults", "skip", "standalone", "description", "formatting"),
)
_NODE_PROPERTIES = (
    *("owner", "tags", "stamp", "depends_on", "project"),
    *("cron", "cron_tz", "interval_unit", "start", "end"),
)
"""Properties that only standalone audits have."""
_NON_BLOCKING = "_non_blocking"


@dataclass(frozen=True, slots=True)
class AuditDefinition:
    """An audit defined by `AUDIT (…); SELECT …` in a file of the project.

    Args:
        name: In lower case.
        source: The file's text.
        before: Macro definitions (`@DEF`) before its query.
        blocking: Whether failing rows block the publication, unless a call overrides it.
        defaults: SQL text of optional arguments.
        standalone: Whether it is a separate node of the graph, not called by models.
    """

    name: str
    source: SourceText
    query: Statement
    before: tuple[Statement, ...]
    dialect: str
    blocking: bool
    defaults: dict[str, str]
    skip: bool
    standalone: bool
    location: SourceLocation


@dataclass(frozen=True, slots=True)
class AuditCall:
    """A model's call of an audit or signal, with the SQL text of each argument."""

    name: str
    arguments: dict[str, str]
    location: SourceLocation


@dataclass(frozen=True, slots=True)
class AuditContext:
    """The project's audits, macros, variables and tables, for resolving calls of audits."""

    definitions: Mapping[str, AuditDefinition]
    scope: MacroScope
    names: TableNames


def read_audit(block: Block, source: SourceText, default_dialect: str) -> AuditDefinition:
    """Read an audit's definition, `AUDIT (…); SELECT …`."""
    header = block.header
    given = header.properties
    standalone = given["standalone"].boolean() if "standalone" in given else False
    for name, value in given.items():
        if name in _NODE_PROPERTIES and not standalone:
            raise value.error(
                f"'{name}' is a property of standalone audits",
                f"remove '{name}', or write standalone true",
            )
        if name not in _PROPERTIES and name not in _NODE_PROPERTIES:
            known = (*_PROPERTIES, *(_NODE_PROPERTIES if standalone else ()))
            raise header.source.error(
                f"unknown property '{name}' of an audit", value.start, suggest(name, known)
            )
    if "name" not in given:
        raise header.source.error("the AUDIT header has no name", header.start, "AUDIT (name x);")
    if not block.statements:
        raise header.source.error("the audit has no query", header.start, "end it with a SELECT")
    defaults = given["defaults"].pairs() if "defaults" in given else []
    return AuditDefinition(
        name=given["name"].text().lower(),
        source=source,
        query=block.statements[-1],
        before=tuple(block.statements[:-1]),
        dialect=given["dialect"].supported_dialect() if "dialect" in given else default_dialect,
        blocking=given["blocking"].boolean() if "blocking" in given else True,
        defaults={key.lower(): value.raw for key, value in defaults},
        skip=given["skip"].boolean() if "skip" in given else False,
        standalone=standalone,
        location=header.source.location(header.start),
    )


def read_call(value: Value) -> AuditCall:
    """Read one call in `audits (…)`, such as `unique_values(columns := (id))`."""
    name, arguments = value.call()
    texts: dict[str, str] = {}
    for argument in arguments:
        separator = ":=" if any(t.text == ":=" for t in argument.tokens) else "="
        sides = argument.split(separator)
        if len(sides) != 2 or len(sides[0].tokens) != 1:
            raise argument.error(
                f"'{argument.raw}' is not an argument of {name}", f"write {name}(argument := value)"
            )
        texts[sides[0].text().lower()] = sides[1].raw
    return AuditCall(name, texts, value.location())


def read_audits(
    calls: Iterable[AuditCall], context: AuditContext
) -> tuple[tuple[Audit, ...], dict[ModelName, SourceLocation]]:
    """Resolve a model's calls of audits, and find the tables that the audits read."""
    audits: list[Audit] = []
    reads: dict[ModelName, SourceLocation] = {}
    for call in calls:
        audit, read = _resolve_call(call, context)
        if audit is None:
            continue
        # An audit that is called twice blocks if one of the calls does.
        same = [
            place
            for place, one in enumerate(audits)
            if dataclasses.replace(one, blocking=audit.blocking) == audit
        ]
        if same and audit.blocking:
            audits[same[0]] = audit
        elif not same:
            audits.append(audit)
        for parent, location in read.items():
            reads.setdefault(parent, location)
    return tuple(audits), reads


def _resolve_call(
    call: AuditCall, context: AuditContext
) -> tuple[Audit | None, dict[ModelName, SourceLocation]]:
    """Return the called audit (None if its definition is skipped), and the tables it reads."""
    name = call.name.lower()
    arguments = dict(call.arguments)
    blocking = _blocking_argument(call, arguments)
    base = name
    if name not in context.definitions and name.endswith(_NON_BLOCKING):
        base, blocking = name.removesuffix(_NON_BLOCKING), False
    definition = context.definitions.get(base)
    dialect, translated = context.scope.dialect, list[str]()
    if definition is not None:
        sql, reads = _render_custom(definition, call, arguments, context)
        default, dialect = definition.blocking, definition.dialect
    elif (builtin := _find_builtin(base, call)) is not None:
        sql, reads = _render_builtin(builtin, base, call, arguments, translated, context)
        default, dialect = True, dialect if translated else "spark"
    else:
        known = [*context.definitions, *PLUGINS.names()]
        raise _call_error(
            call,
            f"unknown audit '{call.name}'",
            suggest(base, known, "audits"),
            Unknown("audit", call.name),
        )
    if definition is not None and definition.skip:
        return None, {}
    audit = Audit(
        name=base,
        arguments=tuple(arguments.items()),
        query=sql,
        blocking=default if blocking is None else blocking,
        reads=tuple(sorted(reads)),
        dialect=dialect,
        dialect_trust=() if dialect == "spark" else tuple(sorted(context.scope.dialect_trust)),
        translated=tuple(translated),
    )
    return audit, reads


def _blocking_argument(call: AuditCall, arguments: dict[str, str]) -> bool | None:
    text = arguments.pop("blocking", None)
    if text is None:
        return None
    if text.lower() not in ("true", "false"):
        raise _call_error(call, f"'blocking' must be true or false, not '{text}'")
    return text.lower() == "true"


def _find_builtin(name: str, call: AuditCall) -> BuiltinAudit | None:
    """Return a built-in audit or an audit of a plug-in, or None."""
    try:
        return BUILTIN_AUDITS.get(name) or PLUGINS.find(name)
    except UsageError as error:
        raise _call_error(call, error.message, error.hint) from error


def _render_builtin(
    builtin: BuiltinAudit,
    name: str,
    call: AuditCall,
    arguments: dict[str, str],
    translated: list[str],
    context: AuditContext,
) -> tuple[str, dict[ModelName, SourceLocation]]:
    """Render a built-in audit's query; collect its translated arguments in `translated`."""
    for other, meant in builtin.also.items():
        if other in arguments and meant not in arguments:
            arguments[meant] = arguments.pop(other)
    known = (*builtin.required, *builtin.optional, "condition")
    for argument in arguments:
        if argument not in known:
            raise _call_error(
                call, f"audit {name} has no argument '{argument}'", suggest(argument, known)
            )
    for argument in builtin.required:
        if argument not in arguments:
            raise _call_error(
                call, f"audit {name} requires '{argument}'", f"write {name}({argument} := …)"
            )
    limits = [argument for argument in builtin.optional if argument in ("min_v", "max_v")]
    if limits and not any(argument in arguments for argument in limits):
        raise _call_error(
            call,
            f"audit {name} has no limits and checks nothing",
            f"write {name}({limits[0]} := …), or {limits[1]}, or both",
        )
    expander = _argument_expander(call, context)
    items: Items = {}
    for key, text in {**builtin.optional, **arguments}.items():
        with _at_call(call):
            expanded = expander.expand_text(text)
        items[key] = (expanded,) if key == "condition" else tuple(list_items(expander, expanded))
        if not items[key]:
            raise _call_error(call, f"argument '{key}' of {name} is empty")
        if context.scope.dialect != "spark" and key in arguments and key not in _UNTRANSLATED:
            items[key] = tuple(_in_spark(text, call, context) for text in items[key])
            translated += items[key]
    return _render_text(builtin.build(items), call, context)


_UNTRANSLATED = ("partition_clause",)


def _in_spark(text: str, call: AuditCall, context: AuditContext) -> str:
    head = "SELECT "
    expander = Expander(SourceText(call.location.path, head + text), context.scope)
    expanded = expander.expand()
    with _at_call(call):
        return render(expander, expanded, context.names, what="argument").sql[len(head) :]


def _argument_expander(call: AuditCall, context: AuditContext) -> Expander:
    return Expander(SourceText(call.location.path, ""), dataclasses.replace(context.scope))


def _render_text(
    text: str, call: AuditCall, context: AuditContext
) -> tuple[str, dict[ModelName, SourceLocation]]:
    source = SourceText(call.location.path, text)
    expander = Expander(source, dataclasses.replace(context.scope, dialect="spark"))
    with _at_call(call):
        rendered = render(expander, expander.expand(), context.names, what="audit")
    return rendered.sql, dict.fromkeys(rendered.reads, call.location)


def _render_custom(
    definition: AuditDefinition, call: AuditCall, arguments: dict[str, str], context: AuditContext
) -> tuple[str, dict[ModelName, SourceLocation]]:
    expander = _argument_expander(call, context)
    with _at_call(call):
        given = {key: expander.expand_text(text) for key, text in arguments.items()}
    try:
        sql, reads = expanded_query(definition, given, context)
    except ProjectError as error:
        if error.unknown is not None and error.unknown.what == "variable":
            missing = error.unknown.name
            raise _call_error(
                call,
                f"audit {call.name} requires '{missing}' ({error.location})",
                f"write {call.name}({missing} := …), or add a default",
            ) from error
        raise
    if f"@{TABLE_PARTS['table_name']}" in sql:
        raise _call_error(
            call, f"audit {call.name}: @RESOLVE_TEMPLATE is only for statements", "use @this_model"
        )
    return sql, reads


def expanded_query(
    definition: AuditDefinition, arguments: Mapping[str, str], context: AuditContext
) -> tuple[str, dict[ModelName, SourceLocation]]:
    """Expand the macros in an audit's query, and find the tables that the query reads."""
    variables = {**context.scope.variables, **definition.defaults, **arguments}
    scope = dataclasses.replace(
        context.scope, variables=variables, dialect=definition.dialect, functions={}
    )
    expander = Expander(definition.source, scope)
    found = [
        expanded
        for statement in (*definition.before, definition.query)
        for expanded in statement.expand(expander)
    ]
    if len(found) != 1:
        raise definition.source.error(
            f"an audit must have one query, but this audit has {len(found)}", definition.query.start
        )
    rendered = render(expander, found[0], context.names, what="audit")
    return rendered.sql, dict(rendered.reads)


def _call_error(
    call: AuditCall, message: str, hint: str | None = None, unknown: Unknown | None = None
) -> ProjectError:
    return ProjectError(message, hint=hint, location=call.location, unknown=unknown)


@contextmanager
def _at_call(call: AuditCall) -> Iterator[None]:
    """Move errors in an audit's text to the place of the audit's call."""
    try:
        yield
    except ProjectError as error:
        raise _call_error(call, f"audit {call.name}: {error.message}", error.hint) from error


_AUTOMATIC_PARAMETERS = ("batch", "execution_time", "environment", "model", "context")
"""Parameters of signals that are passed automatically."""


@dataclass(frozen=True, slots=True)
class SignalDefinition:
    """A function of the project with the decorator `@signal()`."""

    function: Callable[..., Any]
    python: PythonSource


def read_signals(
    calls: Iterable[AuditCall], known: Mapping[str, SignalDefinition]
) -> tuple[Signal, ...]:
    """Find the function for each signal that a model names, and check its arguments."""
    return tuple(_resolve_signal(call, known) for call in calls)


def _resolve_signal(call: AuditCall, known: Mapping[str, SignalDefinition]) -> Signal:
    name = call.name.lower()
    definition = known.get(name)
    if definition is None:
        hint = "define it in signals/ as a Python function with @signal()"
        if known:
            hint = suggest(call.name, known, "signals")
        raise _call_error(call, f"unknown signal '{call.name}'", hint, Unknown("signal", name))
    arguments = {
        key: _read_plain_value(text, key, call) for key, text in sorted(call.arguments.items())
    }
    parameters = list(inspect.signature(definition.function).parameters.values())[1:]
    open_ended = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    names = [one.name for one in parameters if one.name not in _AUTOMATIC_PARAMETERS]
    for key in arguments:
        if key not in names and not open_ended:
            hint = suggest(key, names, "arguments") if names else "remove it"
            raise _call_error(call, f"signal '{call.name}' has no argument '{key}'", hint)
    for one in parameters:
        needed = one.default is inspect.Parameter.empty and one.kind in (
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.KEYWORD_ONLY,
        )
        if needed and one.name in names and one.name not in arguments:
            raise _call_error(
                call,
                f"signal '{call.name}' requires the argument '{one.name}'",
                f"write {call.name}({one.name} := …)",
            )
    return Signal(name, tuple(arguments.items()), definition.python)


def _read_plain_value(text: str, key: str, call: AuditCall) -> object:
    words = text.strip()
    plain: dict[str, object] = {"true": True, "false": False, "null": None}
    if words.lower() in plain:
        return plain[words.lower()]
    if len(words) > 1 and words[0] == words[-1] and words[0] in "'\"":
        return words[1:-1].replace(words[0] * 2, words[0])
    for kind in (int, float):
        try:
            return kind(words)
        except ValueError:
            continue
    raise _call_error(
        call,
        f"argument '{key}' of signal '{call.name}' is not a plain value: {words}",
        "write a text in quotes, a number, true, false or null",
    )
