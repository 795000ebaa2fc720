"""Statements of models without a query: those around a seed's rows."""

from __future__ import annotations

import re

from vde_dagster.project.kinds import Kind
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.reading.rendering import render_statement
from vde_dagster.project.reading.statements import JINJA_QUERY, Block
from vde_dagster.sql.trees import QUERY_WORDS

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
