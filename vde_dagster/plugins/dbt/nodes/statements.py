"""Hooks and grants of a node as statements of its model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vde_dagster.api.errors import ProjectError, SourceLocation
from vde_dagster.api.models import Model
from vde_dagster.api.sql import Edit, SourceText, Token, apply_edits, placeholder
from vde_dagster.api.values import quote
from vde_dagster.plugins.dbt.context import Context
from vde_dagster.plugins.dbt.hooks import KEYS, hook_text
from vde_dagster.plugins.dbt.manifest import Node

_STATEMENTS = frozenset(
    {"SET", "INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "DROP", "ALTER", "CALL", "TRUNCATE"}
    | {"ANALYZE", "REFRESH", "CACHE", "UNCACHE", "USE", "ADD", "COMMENT", "SELECT", "WITH"}
)
"""First words of the statements that Spark and Iceberg support."""
_THIS = re.compile(r"\{\{-?\s*this\s*-?\}\}")
_PART = re.compile(r"\bthis\.(?:name|identifier|table)\b")
_TABLE = placeholder("this_model")
_NOT_SPARK = "that cannot be written in Spark SQL"
_RIGHTS = frozenset({"GRANT", "REVOKE"})
_WRITES_ROWS = re.compile(
    r"(?:INSERT\s+(?:INTO|OVERWRITE)(?:\s+TABLE)?|UPDATE|DELETE\s+FROM|MERGE\s+INTO"
    r"|TRUNCATE\s+TABLE|DROP\s+TABLE(?:\s+IF\s+EXISTS)?)\s+@this_model\b",
    re.IGNORECASE,
)
"""Statements that write the model's rows in a separate commit, which no audit would check."""


def with_statements(
    model: Model, node: Node, rendered: Mapping[str, str], context: Context
) -> tuple[Model, tuple[str, ...]]:
    """Add a node's hooks and grants to its model.

    Args:
        rendered: Hooks that dbt rendered, by key and index.

    Returns:
        The model, and descriptions of ignored hooks.
    """
    # A table's hooks run before and after its query. For a view, statements for the session (as
    # SET) run before its query, and post-hooks run after its publication.
    hooks, grants = _HookReader(node, rendered, context, model.location), context.grants
    before, after = hooks.statements("pre-hook"), hooks.statements("post-hook")
    given = [one for one in (*before, *after) if _first_word(one, "spark") in _RIGHTS]
    unread = hooks.unread
    if given and not grants:
        unread += [f"hooks that {_first_word(one, 'spark').lower()} rights" for one in given]
    before, after = ([one for one in all_ if one not in given] for all_ in (before, after))
    published = [*given, *_grant_statements(node)] if grants else []
    if not model.kind.owns_table:
        unread += ["pre-hook of views" for one in before if not Model.is_for_session(one)]
        before = [one for one in before if Model.is_for_session(one)]
        published, after = [*after, *published], []
    if not model.kind.is_shown:
        unread += [f"{key} of ephemeral models" for key in KEYS if node.config.get(key)]
        before, after, published = [], [], []
    model = replace(
        model,
        pre_statements=tuple(before),
        post_statements=tuple(after),
        on_virtual_update=tuple(published),
    )
    return model, tuple(unread)


def _grant_statements(node: Node) -> Iterator[str]:
    given: Mapping[str, Any] = node.config.get("grants") or {}
    for right, people in given.items():
        for one in [people] if isinstance(people, str) else people or ():
            yield f"GRANT {right.upper()} ON VIEW @this_model TO {quote(str(one))}"


@dataclass(slots=True)
class _HookReader:
    """Converts hooks, and collects descriptions of ignored hooks."""

    node: Node
    rendered: Mapping[str, str]
    context: Context
    location: SourceLocation
    unread: list[str] = field(default_factory=list)

    def statements(self, key: str) -> list[str]:
        # In hooks that dbt did not render, only `{{ this }}` is replaced.
        found = []
        for index, hook in enumerate(self.node.config.get(key) or ()):
            made, why = self._read_hook(key, index, hook_text(hook))
            found += made
            self.unread += [f"{key} {why}"] if why else []
        return found

    def _read_hook(self, key: str, index: int, written: str) -> tuple[list[str], str | None]:
        text, dialect = self.rendered.get(f"{key} {index}"), self.context.dialect
        if text is None:
            text = _THIS.sub(lambda _: _relation(self.node), written)
        if "{{" in text or "{%" in text:
            return [], "with Jinja"
        try:
            text = _replace_table(text, self.node, dialect)
            if _PART.search(written) and _has_bare_name(text, self.node, dialect):
                return [], "that names its table without a schema"
        except ProjectError:
            return [], _NOT_SPARK
        made, why = read_statements(text, self.context, self.location)
        if any(map(_WRITES_ROWS.match, made)):
            return [], "that writes rows of its own table"
        return made, why


def read_statements(
    text: str, context: Context, location: SourceLocation
) -> tuple[list[str], str | None]:
    """Translate the statements of a text to Spark SQL, or return why the text is ignored."""
    found: list[str] = []
    dialect = context.dialect
    source = SourceText(location.path, text)
    try:
        for start, end in _split_statements(source, dialect):
            one = SourceText(location.path, text[start:end])
            if _first_word(one.text, dialect) not in _STATEMENTS | _RIGHTS:
                return [], "with statements that Spark does not have"
            found.append(context.project.render_statement(one, context.names, dialect=dialect))
    except ProjectError:
        return [], _NOT_SPARK
    return found, None


def _split_statements(source: SourceText, dialect: str) -> Iterator[tuple[int, int]]:
    tokens = Token.split(source, dialect)
    own: list[Token] = []
    for token in tokens:
        if token.text != ";":
            own.append(token)
        elif own:
            yield own[0].start, own[-1].end
            own = []
    if own:
        yield own[0].start, own[-1].end


def _replace_table(text: str, node: Node, dialect: str) -> str:
    """Replace each name of the model's table in a hook with `@this_model`.

    Raises:
        ProjectError: A bracket, string or comment is not closed.
    """
    # String literals keep the name, because readers of a log expect it.
    texts = [
        range(token.start, token.end)
        for token in Token.split(text, dialect)
        if token.is_string(dialect)
    ]
    names = dict.fromkeys((_relation(node), ".".join(node.relation), ".".join(node.relation[-2:])))
    any_name = "|".join(map(re.escape, names))
    edits = (
        Edit(found.start(), found.end(), _TABLE)
        for found in re.finditer(rf'(?<![\w.`"])(?:{any_name})(?![\w`"])', text)
        if not any(found.start() in one for one in texts)
    )
    return apply_edits(text, edits)


def _relation(node: Node) -> str:
    return node.relation_name or ".".join(node.relation)


def _has_bare_name(text: str, node: Node, dialect: str) -> bool:
    """Return whether a hook names its table without a schema, except in strings."""
    name, tokens = node.relation[-1].lower(), Token.split(text, dialect)
    return any(token.text.strip('`"').lower() == name for token in tokens)


def _first_word(text: str, dialect: str) -> str:
    tokens = Token.split(text, dialect)
    return tokens[0].text.upper() if tokens else ""
