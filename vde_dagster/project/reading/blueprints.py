"""Several models of one definition: `MODEL (name @customer.orders, blueprints (…))`.

Each blueprint gives values to variables. They are replaced in the header, whose places stay those
of the file, and are macro variables in everything that follows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from vde_dagster.errors import SourceLocation
from vde_dagster.project.macros.expansion import Expanded, Expander, MacroScope
from vde_dagster.project.reading.header import Header, Value, parse_header, refuse_variables
from vde_dagster.project.reading.statements import Block
from vde_dagster.sql.scanner import SourceText, Token, matching, scan, unquote


@dataclass(frozen=True, slots=True)
class ExpandedSource(SourceText):
    """Text with variables replaced, whose places are those of the file.

    Args:
        file: The file.
        expanded: Knows where the text came from.
    """

    file: SourceText
    expanded: Expanded

    def location(self, offset: int) -> SourceLocation:
        """Return the line and column in the file."""
        return self.file.location(self.expanded.origin(max(offset, 0)))


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
        source: The file.
        block: A `MODEL` block.
        scope: Macros and variables that `blueprints` itself may use.

    Raises:
        ProjectError: `blueprints` is not a list of values.
    """
    value = block.header.properties.get("blueprints")
    if value is None:
        return [Blueprint(block, {})]
    return [
        Blueprint(replace(block, header=_header(source, block.header, variables)), variables)
        for variables in read_blueprints(_without_macros(source, value, scope))
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


def with_values(text: str, variables: Mapping[str, str]) -> str:
    """Replace variables in a text that is no SQL: `@{customer}` and `@customer`."""
    import re

    def value(found: re.Match[str]) -> str:
        own = variables.get((found[1] or found[2]).lower())
        return found[0] if own is None else bare(own)

    return re.sub(r"@\{\s*(\w+)\s*\}|@(\w+)", value, text)


def bare(value: str) -> str:
    """Return a value without the quotes around it."""
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'`\"":
        return value[1:-1]
    return value


def _without_macros(source: SourceText, value: Value, scope: MacroScope) -> Value:
    """Expand the macros that make a list of blueprints."""
    if not any(token.text == "@" for token in value.tokens):
        return value
    expanded = Expander(source, scope).expand(value.tokens[0].start, value.tokens[-1].end)
    inner = ExpandedSource(source.path, expanded.text, source, expanded)
    tokens = tuple(token for token in scan(inner) if token.kind != "comment")
    return Value(inner, value.name, tokens, 0)


def _header(source: SourceText, header: Header, variables: Mapping[str, str]) -> Header:
    tokens = [t for t in scan(source, header.start) if t.kind != "comment"]
    end = tokens[matching(source, tokens, 1)].end
    pieces: list[tuple[str, int, bool]] = [(source.text[: header.start], 0, True)]
    done = header.start
    for start, until, text in _replaced(source, header.start, end, variables):
        pieces += [(source.text[done:start], done, True), (text, start, False)]
        done = until
    pieces.append((source.text[done:], done, True))
    expanded = _joined(pieces)
    made = ExpandedSource(source.path, expanded.text, source, expanded)
    inside = [t for t in scan(made, header.start) if t.kind != "comment"]
    parsed = parse_header(made, inside[: matching(made, inside, 1) + 1])
    properties = {name: own for name, own in parsed.properties.items() if name != "blueprints"}
    again = replace(parsed, properties=properties)
    refuse_variables(again)
    return again


def _replaced(
    source: SourceText, start: int, end: int, variables: Mapping[str, str]
) -> Iterator[tuple[int, int, str]]:
    """Yield where variables stand, and what is put there."""
    tokens = list(scan(source, start, end))
    for index, token in enumerate(tokens):
        if token.text != "@":
            continue
        following: list[Token | None] = list(tokens[index + 1 : index + 4])
        first, second, third = [*following, None, None, None][:3]
        own: str | None
        if first is None or first.start != token.end:
            continue
        if first.kind == "string":
            text = with_values(unquote(first), variables).replace("'", "\\'")
            yield token.start, first.end, f"'{text}'"
        elif first.kind == "word" and first.text.lower() in variables:
            own = variables[first.text.lower()]
            around = source.text[token.start - 1 : token.start] + source.text[first.end :][:1]
            glued = any(sign.isalnum() or sign in "._@`" for sign in around)
            yield token.start, first.end, bare(own) if glued else own
        elif first.text == "{" and second is not None and third is not None:
            own = variables.get(second.text.lower())
            if own is not None and third.text == "}":
                yield token.start, third.end, bare(own)


def _joined(pieces: Iterable[tuple[str, int, bool]]) -> Expanded:
    starts: list[int] = []
    origins: list[tuple[int, bool]] = []
    texts: list[str] = []
    position = 0
    for text, origin, verbatim in pieces:
        if text:
            starts.append(position)
            origins.append((origin, verbatim))
            texts.append(text)
            position += len(text)
    return Expanded("".join(texts), tuple(starts), tuple(origins))
