"""A file of models or audits laid out anew: no word, literal or comment goes, comes or moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vde_dagster.project.formatting.header_layout import header_document
from vde_dagster.project.reading.header import parse_header
from vde_dagster.project.reading.statements import is_header
from vde_dagster.sql.jinja import JinjaBlock, jinja_blocks, without_blocks
from vde_dagster.sql.layout.documents import BLANK, HARD, Document, Remark, written
from vde_dagster.sql.layout.nodes import Leaf, read_nodes
from vde_dagster.sql.layout.options import LayoutOptions
from vde_dagster.sql.layout.queries import QueryLayout
from vde_dagster.sql.scanner import BACKSLASH_DIALECTS, SourceText, Token, scan

_TOGETHER = ("ON_VIRTUAL_UPDATE_BEGIN", "JINJA_END")
_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM")


@dataclass(frozen=True, slots=True)
class _Piece:
    """What a semicolon ends, or a block of Jinja.

    Args:
        tokens: Its tokens, comments included; none of a block.
        dialect: SQLGlot dialect in which it is written.
        end: The semicolon, if there is one.
        block: The block of Jinja.
    """

    tokens: tuple[Token, ...]
    dialect: str
    end: Token | None = None
    block: JinjaBlock | None = None


def laid_out(source: SourceText, dialect: str, options: LayoutOptions) -> str:
    """Return a file's text, laid out.

    Args:
        source: The file.
        dialect: SQLGlot dialect of what names none.
        options: How it shall look.

    Raises:
        ProjectError: It is not closed somewhere, or a header is malformed.
    """
    layout = QueryLayout(options)
    parts: list[Document] = []
    position, inside = 0, False
    for piece in _pieces(source, dialect):
        parts.append(_document(source, position, piece, layout, options))
        words = [token.text.upper() for token in piece.tokens if token.kind == "word"]
        inside = (inside or words == ["ON_VIRTUAL_UPDATE_BEGIN"]) and words != [
            "ON_VIRTUAL_UPDATE_END"
        ]
        parts.append(HARD if inside else BLANK)
        position = _end(piece, position)
    return written(tuple(parts), options.max_text_width) + "\n"


def _end(piece: _Piece, position: int) -> int:
    if piece.block is not None:
        return piece.block.end
    if piece.end is not None:
        return piece.end.end
    return piece.tokens[-1].end if piece.tokens else position


def _document(
    source: SourceText, position: int, piece: _Piece, layout: QueryLayout, options: LayoutOptions
) -> Document:
    comments, tokens = _leading_comments(piece.tokens)
    parts: list[Document] = []
    end = position
    for comment in comments:
        begins = "\n" in source.text[end : comment.start] or not end
        parts += [Remark(comment.text, behind=not begins), HARD]
        end = comment.end
    if piece.block is not None:
        parts.append(source.text[piece.block.start : piece.block.end])
    elif tokens:
        parts.append(_statement(source, tokens, layout, options))
    if piece.end is not None:
        parts.append(";")
    return tuple(parts)


def _leading_comments(tokens: Sequence[Token]) -> tuple[list[Token], list[Token]]:
    count = next((n for n, one in enumerate(tokens) if one.kind != "comment"), len(tokens))
    return list(tokens[:count]), list(tokens[count:])


def _statement(
    source: SourceText, tokens: list[Token], layout: QueryLayout, options: LayoutOptions
) -> Document:
    words = [token for token in tokens if token.kind != "comment"]
    nodes = read_nodes(source, tokens)
    if is_header(words):
        return header_document(nodes, options.pad)
    named = [node.word for node in nodes if isinstance(node, Leaf)]
    first = nodes[0]
    if not isinstance(first, Leaf) or any(word in _QUERY_WORDS[:2] for word in named):
        return layout.query(nodes)
    if first.word in _QUERY_WORDS:
        return layout.query(nodes)
    return source.text[tokens[0].start : tokens[-1].end]


def _pieces(source: SourceText, default_dialect: str) -> Iterator[_Piece]:
    """Yield the statements and blocks of a file in order."""
    backslash = default_dialect in BACKSLASH_DIALECTS
    templates = jinja_blocks(source, backslash=backslash)
    blocks = {block.start: block for block in templates if block.kind != "comment"}
    comments = [block for block in templates if block.kind == "comment"]
    plain = without_blocks(source, templates)
    dialect, position = default_dialect, 0
    while True:
        piece = _next(plain, position, dialect, blocks)
        stop = len(source.text) if piece.end is None and piece.block is None else _end(piece, 0)
        if piece.block is not None:
            stop = piece.block.start
        piece = _with_comments(source, piece, comments, position, stop)
        if piece.tokens or piece.end or piece.block:
            yield piece
        words = [token for token in piece.tokens if token.kind != "comment"]
        if words and is_header(words):
            named = parse_header(plain, words).properties.get("dialect")
            dialect = named.sql_dialect() if named else default_dialect
        if piece.end is None and piece.block is None:
            return
        position = _end(piece, position)


def _next(source: SourceText, position: int, dialect: str, blocks: dict[int, JinjaBlock]) -> _Piece:
    tokens: list[Token] = []
    for token in scan(source, position, backslash=dialect in BACKSLASH_DIALECTS):
        if token.text == ";":
            return _Piece(tuple(tokens), dialect, end=token)
        if token.start in blocks:
            return _Piece(tuple(tokens), dialect, block=blocks[token.start])
        tokens.append(token)
    return _Piece(tuple(tokens), dialect)


def _with_comments(
    source: SourceText, piece: _Piece, comments: list[JinjaBlock], start: int, stop: int
) -> _Piece:
    """Add the comments of Jinja that stand in a piece."""
    own = [
        Token("comment", source.text[one.start : one.end], one.start)
        for one in comments
        if start <= one.start < stop
    ]
    if not own:
        return piece
    tokens = sorted((*piece.tokens, *own), key=lambda token: token.start)
    return _Piece(tuple(tokens), piece.dialect, piece.end, piece.block)
