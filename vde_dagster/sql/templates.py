"""Finds Jinja blocks and Jinja comments in SQL, and converts `#` comments."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from vde_dagster.errors import ProjectError
from vde_dagster.sql.scanner import SourceText, Token, scan

_BEGINNINGS = ("{{", "{%", "{#")
_BLOCKS = {"JINJA_QUERY_BEGIN": "query", "JINJA_STATEMENT_BEGIN": "statement"}
_END = re.compile(r"\bJINJA_END\b\s*;?", re.IGNORECASE)
JINJA = "Jinja is evaluated only in blocks"
JINJA_HINT = (
    "write JINJA_QUERY_BEGIN; SELECT …; JINJA_END; (JINJA_STATEMENT_BEGIN; for other statements), "
    "or macros and variables with @, such as @name or @EACH(…); see `vde help macros`"
)


@dataclass(frozen=True, slots=True)
class JinjaBlock:
    """A block or a comment of Jinja.

    Args:
        kind: `query`, `statement`, or `comment` for `{# … #}` outside of blocks.
        body: Offset at which the part to render begins.
    """

    kind: str
    start: int
    body: int
    body_end: int
    end: int


def find_jinja_blocks(source: SourceText, *, backslash: bool = True) -> list[JinjaBlock]:
    """Find the blocks and comments of Jinja outside of strings and SQL's own comments.

    Raises:
        ProjectError: A block or comment has no end, or no semicolon follows a block's first word.
    """
    text = source.text
    if "{#" not in text and "JINJA_" not in text.upper():
        return []
    found: list[JinjaBlock] = []
    tokens = _tokens(source, 0, backslash)
    while (token := next(tokens, None)) is not None:
        word = token.text.upper()
        if token.kind == "word" and word in _BLOCKS:
            begun, behind = token.start, next(tokens, token)
            if behind.text != ";":
                raise source.error(f"{word} has no semicolon after it", begun, f"write {word};")
            last = _END.search(text, behind.end)
            if last is None:
                hint = "end it with JINJA_END;"
                raise source.error("a Jinja block has no end", begun, hint)
            block = JinjaBlock(_BLOCKS[word], begun, behind.end, last.start(), last.end())
        elif word == "{" and text.startswith("{#", token.start):
            stop = text.find("#}", token.start + 2)
            if stop < 0:
                raise source.error("this comment is not closed", token.start, "end it with #}")
            block = JinjaBlock("comment", token.start, stop, stop, stop + 2)
        else:
            continue
        found.append(block)
        tokens = _tokens(source, block.end, backslash)
    return found


def _tokens(source: SourceText, position: int, backslash: bool) -> Iterator[Token]:
    with contextlib.suppress(ProjectError):
        yield from scan(source, position, backslash=backslash)


def blank_blocks(source: SourceText, blocks: list[JinjaBlock]) -> SourceText:
    """Replace blocks' contents, and comments, with blanks; line ends and all offsets stay."""
    return _blank(
        source, [(b.start, b.end) if b.kind == "comment" else (b.body, b.body_end) for b in blocks]
    )


def blank_jinja_comments(source: SourceText, *, backslash: bool = True) -> SourceText:
    """Replace comments `{# … #}` outside of blocks with blanks.

    Raises:
        ProjectError: A block or comment has no end.
    """
    blocks = find_jinja_blocks(source, backslash=backslash)
    return _blank(source, [(b.start, b.end) for b in blocks if b.kind == "comment"])


def _blank(source: SourceText, stretches: list[tuple[int, int]]) -> SourceText:
    if not stretches:
        return source
    text = source.text
    for start, end in stretches:
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return SourceText(source.path, text)


def find_jinja(source: SourceText, *, backslash: bool = True) -> int | None:
    """Return the offset of Jinja outside strings, quoted identifiers and comments, or None."""
    text = source.text
    if not any(beginning in text for beginning in _BEGINNINGS):
        return None
    for token in _tokens(source, 0, backslash):
        if token.text == "{" and text[token.start : token.start + 2] in _BEGINNINGS:
            return token.start
    return None


_DASHES_AND_BLANK = frozenset({"mysql", "doris", "starrocks", "singlestore"})
"""Dialects in which `--` begins a comment only before a blank."""
_DIALECTS = _DASHES_AND_BLANK | {"bigquery", "clickhouse"}
"""SQLGlot dialects in which `#` begins a comment."""
_DIALECT = re.compile(r"\bdialect\s+['\"]?(\w+)", re.IGNORECASE)
_PIECES = re.compile(
    r"""'{3}(?:.*?'{3}|.*)|"{3}(?:.*?"{3}|.*)"""
    r"""|'(?:\\.|[^'\\]|\\\Z)*(?:'|\Z)|"(?:\\.|[^"\\]|\\\Z)*(?:"|\Z)|`[^`]*(?:`|\Z)"""
    r"""|--[^\n]*|/\*(?:.*?\*/|.*)|\{\#(?:.*?\#\}|.*)|(?P<hash>\#[^\n]*)""",
    re.DOTALL,
)
"""Matches a string, a quoted identifier or a comment.

If it is not closed, the match is the rest of the text, which is then not scanned again.
"""


def rewrite_hash_comments(source: SourceText, dialect: str) -> SourceText:
    """Rewrite comments such as `# why` as `--why` or blanks, if the dialect has `#` comments.

    Offsets do not change. `dialect` applies if no header of the file names a dialect.
    """
    if "#" not in source.text:
        return source
    named = _DIALECT.search(source.text)
    own = named[1].lower() if named else dialect
    if own not in _DIALECTS:
        return source

    def written(found: re.Match[str]) -> str:
        comment = found["hash"]
        if comment is None:
            return found[0]
        # If `#` is not followed by a space, `--` does not fit, and blanks replace the comment.
        has_room = comment[1:2].isspace() and own not in _DASHES_AND_BLANK
        return f"--{comment[2:]}" if has_room else " " * len(comment)

    return SourceText(source.path, _PIECES.sub(written, source.text))
