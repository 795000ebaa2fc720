"""Splitting of a SQL file into headers and statements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.properties.header import Header, parse_header
from vde_dagster.sql.edits import Expanded
from vde_dagster.sql.scanner import (
    BACKSLASH_DIALECTS,
    SourceText,
    Token,
    find_statement_end,
    refuse_too_deep,
    scan,
)
from vde_dagster.sql.templates import (
    JINJA,
    JINJA_HINT,
    blank_blocks,
    blank_jinja_comments,
    find_jinja,
    find_jinja_blocks,
    rewrite_hash_comments,
)

_BEGIN, _END = "ON_VIRTUAL_UPDATE_BEGIN", "ON_VIRTUAL_UPDATE_END"
JINJA_QUERY, JINJA_STATEMENT = "JINJA_QUERY_BEGIN", "JINJA_STATEMENT_BEGIN"
_QUERIES = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "(", JINJA_QUERY})
"""First words of queries."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a SQL file, between two semicolons.

    Args:
        start: Offset of the first token.
        end: Offset after the last token.
        first: The first word, in upper case; for a template `JINJA_QUERY_BEGIN` or
            `JINJA_STATEMENT_BEGIN`.
    """

    start: int
    end: int
    first: str

    def expand(self, expander: Expander) -> list[Expanded]:
        """Expand the macros; a macro or template may return several statements."""
        if self.first in (JINJA_QUERY, JINJA_STATEMENT):
            from vde_dagster.project.macros.jinja import render_block

            return render_block(expander, self.start, self.end)
        return expander.statements(self.start, self.end)


@dataclass(frozen=True, slots=True)
class Block:
    """A header with its statements; `on_virtual_update` are run after the view is published."""

    header: Header
    statements: tuple[Statement, ...]
    on_virtual_update: tuple[Statement, ...] = ()


def read_blocks(path: Path, text: str, dialect: str) -> tuple[SourceText, list[Block]]:
    """Split a file into blocks, which are headers with their statements.

    The file's text is also returned, with its comments in Spark's form. `dialect` is the SQLGlot
    dialect of blocks that set no dialect.
    """
    source = rewrite_hash_comments(SourceText(path, text), dialect)
    source = blank_jinja_comments(source, backslash=dialect in BACKSLASH_DIALECTS)
    return source, split_blocks(source, dialect)


def split_statements(source: SourceText, dialect: str) -> tuple[Statement, ...]:
    """Split a text without headers at its semicolons."""
    (block,) = split_blocks(source, dialect, Header("", {}, source, 0))
    return block.statements


def split_blocks(
    source: SourceText, default_dialect: str, header: Header | None = None
) -> list[Block]:
    """Split a text into its `MODEL` and `AUDIT` blocks.

    If `header` is given, statements before the first header belong to `header`.
    """
    # First: Jinja would be misread, and deep nesting would crash the parser.
    backslash = default_dialect in BACKSLASH_DIALECTS
    templates = find_jinja_blocks(source, backslash=backslash)
    bodies = {block.start: block for block in templates if block.kind != "comment"}
    source = blank_blocks(source, templates)
    jinja = find_jinja(source, backslash=backslash)
    if jinja is not None:
        raise source.error(JINJA, jinja, JINJA_HINT)
    refuse_too_deep(source, backslash=backslash)
    dialect = own_dialect = default_dialect
    begun: list[tuple[Header, list[Statement]]] = [(header, [])] if header is not None else []
    position = 0
    while True:
        begin = position
        tokens, end, position = _next_statement(source, position, dialect)
        if tokens and is_header(tokens):
            comment = _header_comment(source, begin, tokens[0].start)
            header = replace(parse_header(source, tokens), comment=comment)
            named = header.properties.get("dialect")
            dialect = named.sql_dialect() if named else default_dialect
            own_dialect = own_dialect if begun else dialect
            begun.append((header, []))
        elif tokens:
            first = tokens[0]
            if first.is_word("METRIC"):
                message = "METRIC is not supported"
                raise source.error(message, first.start, "write it in YAML, see `vde help metrics`")
            if not begun:
                raise source.error(
                    f"the file begins with '{first.text}' instead of a header",
                    first.start,
                    "begin it with MODEL (name schema.model); or AUDIT (name my_audit);",
                )
            body = bodies.get(first.start)
            header, statements = begun[-1]
            if body is None:
                statements.append(Statement(first.start, end, first.text.upper()))
            else:
                statements.append(Statement(body.body, body.body_end, first.text.upper()))
                position = body.end
            is_query = statements[-1].first in _QUERIES
            if header.word == "AUDIT" and begun[0][0].word == "MODEL" and is_query:
                # An audit inside a model's file ends with its query; the model continues.
                begun.append(begun[0])
                dialect = own_dialect
        if position > len(source.text):
            break
    # A continued model appears again; merge its parts into one block.
    once = {id(header): (header, statements) for header, statements in begun}
    return [_make_block(source, header, statements) for header, statements in once.values()]


def _header_comment(source: SourceText, start: int, end: int) -> str | None:
    if start >= end or not source.text[start:end].strip():
        return None
    texts = [token.text for token in scan(source, start, end) if token.kind == "comment"]
    words = (t[2:-2] if t.startswith("/*") else t.removeprefix("--") for t in texts)
    return "\n".join(word.strip() for word in words).strip() or None


def _make_block(source: SourceText, header: Header, statements: list[Statement]) -> Block:
    own: list[Statement] = []
    later: list[Statement] = []
    begun: Statement | None = None
    for one in statements:
        if one.first not in (_BEGIN, _END):
            (own if begun is None else later).append(one)
            continue
        if source.text[one.start : one.end].upper() != one.first:
            raise source.error(
                f"{one.first} must be a separate statement", one.start, f"write {one.first};"
            )
        if (one.first == _BEGIN) != (begun is None):
            wrong = "has no end" if begun is not None else "has no beginning"
            raise source.error(
                f"a block of statements on virtual update {wrong}",
                one.start,
                f"write {_BEGIN}; statements; {_END};",
            )
        begun = one if one.first == _BEGIN else None
    if begun is not None:
        raise source.error(
            "a block of statements on virtual update has no end",
            begun.start,
            f"end it with {_END};",
        )
    return Block(header, tuple(own), tuple(later))


def is_audit_file(text: str) -> bool:
    """Return whether a file begins with an `AUDIT` header, without parsing all of it."""
    for token in scan(SourceText(Path("file"), text)):
        if token.kind != "comment":
            return token.is_word("AUDIT")
    return False


def is_header(tokens: list[Token]) -> bool:
    """Return whether a statement is a header: `MODEL (` or `AUDIT (`."""
    return tokens[0].is_word("MODEL", "AUDIT") and (len(tokens) == 1 or tokens[1].text == "(")


def _next_statement(
    source: SourceText, position: int, dialect: str
) -> tuple[list[Token], int, int]:
    """Return the next statement's tokens, its end, and the offset after its semicolon.

    If the statement is not a header, the tokens may be only the first token.
    """
    tokens: list[Token] = []
    backslash = dialect in BACKSLASH_DIALECTS
    for token in scan(source, position, backslash=backslash):
        if token.kind == "punct" and token.text == ";":
            return tokens, tokens[-1].end if tokens else token.start, token.end
        if token.kind == "comment":
            continue
        if not tokens and not token.is_word("MODEL", "AUDIT"):
            end = find_statement_end(source, token.start, backslash=backslash)
            if end is not None:
                length = len(source.text[token.start : end].rstrip())
                return [token], token.start + length, end + 1
        if token.text == "," and tokens and tokens[-1].text == ",":
            # SQLGlot accepts it, Spark does not.
            raise source.error(
                "syntax error near ',': there are two commas in a row", token.start, "remove one"
            )
        tokens.append(token)
    return tokens, tokens[-1].end if tokens else position, len(source.text) + 1
