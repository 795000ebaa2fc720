"""Several models of one definition: `MODEL (name @customer.orders, blueprints (…))`.

Each blueprint gives values to variables, which are macro variables in the header and in everything
that follows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vde_dagster.project.macros.expanded_source import ExpandedSource
from vde_dagster.project.macros.expansion import Expander, MacroScope
from vde_dagster.project.reading.header import Value
from vde_dagster.project.reading.header_macros import expanded_header
from vde_dagster.project.reading.statements import Block
from vde_dagster.sql.scanner import SourceText, scan


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
    tokens = tuple(token for token in scan(inner) if token.kind != "comment")
    return Value(inner, value.name, tokens, 0)
