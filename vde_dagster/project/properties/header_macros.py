"""Expansion of variables and macros in `MODEL (…)` headers, before any property is read.

Places of values still refer to the original file. The macros in arguments of audits are expanded
later, with the audit's query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from vde_dagster.base.cron import SHORT_NAMES
from vde_dagster.errors import ProjectError, SourceLocation, placed
from vde_dagster.project.macros.expansion import Expander, call_tokens, is_call
from vde_dagster.project.macros.scope import MacroScope
from vde_dagster.project.macros.variables import IN_TEXT, KIND_NAME, bare, with_values
from vde_dagster.project.properties.header import Header, header_literal, parse_header
from vde_dagster.project.property_value import Value
from vde_dagster.sql.edits import NOTHING, Expanded, ExpandedSource
from vde_dagster.sql.scanner import SourceText, Token, scan, unquote
from vde_dagster.sql.trees import has_placeholder

_LATER = ("audits",)
"""Properties whose macros are expanded later, with the queries of the audits."""
_CRONS = ("cron", "auto_restatement_cron")
_CALL = re.compile(r"(?<!\w)@\w+\s*\(")


def expanded_header(header: Header, scope: MacroScope, blueprint: Mapping[str, str]) -> Header:
    """Expand variables and macros in a header.

    A property whose value becomes NULL is removed. `blueprint` has the SQL text of the blueprint's
    variables by lower-case name.
    """
    source = header.source
    kind = written_kind(header.properties, scope.variables.get(KIND_NAME))
    known = {name: text for name, text in scope.variables.items() if name != KIND_NAME}
    inner = replace(scope, variables={**known, **kind, **blueprint})
    pieces = [(source.text[: header.start], 0)]
    done = header.start
    for start, until, text in _find_replacements(header, inner, blueprint):
        pieces += [(source.text[done:start], done), (text, ~start)]
        done = until
    if done == header.start:
        return header if "blueprints" not in header.properties else _without_blueprints(header)
    expanded = Expanded.build([*pieces, (source.text[done:], done)])
    made = ExpandedSource(source.path, expanded.text, source, expanded)
    # The text after the header may have another dialect.
    parsed = parse_header(made, call_tokens(scan(made, header.start), before_bracket=1))
    return _without_blueprints(replace(parsed, comment=header.comment))


def written_kind(properties: Mapping[str, Value], default: str | None) -> dict[str, str]:
    """Return `@model_kind_name` with its value; empty if a macro computes the kind's name."""
    kind = properties.get("kind")
    if kind is None:
        return {} if default is None else {KIND_NAME: default}
    first = kind.tokens[0] if kind.tokens else None
    is_name = first is not None and first.kind == "word"
    return {KIND_NAME: f"'{first.text.upper()}'"} if first is not None and is_name else {}


def expanded_text(
    text: str, scope: MacroScope, location: SourceLocation, *, strict: bool = True
) -> str:
    """Expand a text outside of SQL, such as a name in YAML; `strict` refuses unknown variables."""
    if "@" not in text or text.lower() in SHORT_NAMES:
        return text
    source = SourceText(location.path, text)
    with placed(location):
        if _CALL.search(text):
            return bare(Expander(source, scope).expand().text)
        found = with_values(text, scope.variables)
        unknown = IN_TEXT.search(found) if strict else None
        if unknown is not None:
            name = unknown[1] or unknown[2]
            Expander(SourceText(location.path, f"@{name}"), scope).expand()
            message, hint = _unavailable_message(name)
            raise source.error(message, 0, hint)
        return found


def _unavailable_message(name: str) -> tuple[str, str]:
    return (
        f"'@{name}' is not available here",
        "use it in the query: it has a value only while an interval is filled",
    )


def _without_blueprints(header: Header) -> Header:
    properties = {
        name: value
        for name, value in header.properties.items()
        if name != "blueprints" and not _is_empty(header, name)
    }
    return replace(header, properties=properties)


def _is_empty(header: Header, name: str) -> bool:
    value = header.properties[name]
    if not isinstance(header.source, ExpandedSource) or len(value.tokens) != 1:
        return False
    text, offset = value.tokens[0].text, value.tokens[0].start
    return text == NOTHING or (
        text.upper() in ("NULL", "NONE") and header.source.expanded.was_replaced(offset)
    )


def _find_replacements(
    header: Header, scope: MacroScope, blueprint: Mapping[str, str]
) -> Iterator[tuple[int, int, str]]:
    source, until = header.source, 0
    expander = Expander(source, scope)
    for name, value in header.properties.items():
        if name == "blueprints":
            continue
        tokens = list(value.tokens)
        for index, token in enumerate(tokens):
            if token.start < until or not ("@{" in token.text or token.text == "@"):
                continue  # The copied text after it is only for other blueprints.
            found = _replacement(expander, name, tokens[max(index - 1, 0) :], index > 0, blueprint)
            if found is not None:
                until, text = found
                yield token.start, until, text


def _replacement(
    expander: Expander, name: str, tokens: list[Token], before: bool, blueprint: Mapping[str, str]
) -> tuple[int, str] | None:
    source = expander.source
    variables: Mapping[str, str] = expander.scope.variables
    previous = tokens[0] if before else None
    first, following = (tokens[1], tokens[2:]) if before else (tokens[0], tokens[1:])
    if first.kind == "quoted" and "@{" in first.text:
        sign = first.text[0]
        return first.end, f"{sign}{with_values(first.text[1:-1], variables)}{sign}"
    if first.text != "@" or not following or following[0].start != first.end:
        return None
    word = following[0]
    later = name in _LATER
    if later:
        variables = blueprint
    if word.kind == "string":
        return word.end, header_literal(with_values(unquote(word), variables))
    if word.text == "{" and len(following) > 2:
        inner, closing = following[1], following[2]
        own = variables.get(inner.text.lower())
        if own is not None and closing.text == "}":
            return closing.end, bare(own)
    elif word.kind == "word" and word.text.lower() in variables and not is_call(following):
        own = variables[word.text.lower()]
        around = source.text[first.start - 1 : first.start] + source.text[word.end :][:1]
        glued = any(sign.isalnum() or sign in "._@`" for sign in around)
        return word.end, bare(own) if glued else own
    if later or _is_cron(name, previous, word):
        return None
    try:
        return _expand_macro(expander, first, following)
    except ProjectError as error:
        where = error.location or source.location(first.start)
        message = f"property '{name}': {error.message}"
        raise ProjectError(
            message, hint=error.hint, location=where, unknown=error.unknown
        ) from error


def _is_cron(name: str, previous: Token | None, word: Token) -> bool:
    is_cron = name in _CRONS or (previous is not None and previous.text.lower() in _CRONS)
    return is_cron and f"@{word.text}".lower() in SHORT_NAMES


def _expand_macro(expander: Expander, sign: Token, following: list[Token]) -> tuple[int, str]:
    source, word = expander.source, following[0]
    end = word.end
    if word.text == "{" or is_call(following):
        end = following[source.closing(following, 0 if word.text == "{" else 1)].end
    text = expander.expand(sign.start, end).text.strip() or NOTHING
    if has_placeholder(text):
        message, hint = _unavailable_message(source.text[sign.end : end])
        raise source.error(message, sign.start, hint)
    return end, text
