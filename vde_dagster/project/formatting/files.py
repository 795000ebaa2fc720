"""The SQL formatter: formats headers and queries; leaves templates and other statements unchanged.

Deeply nested brackets of a property keep their spaces, because versions include the text of some
properties with their spaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter
from pathlib import Path

from vde_dagster.errors import ProjectError
from vde_dagster.project.formatting.documents import (
    BLANK,
    HARD,
    LINE,
    SOFT,
    Document,
    Group,
    Nest,
    Remark,
    render_document,
)
from vde_dagster.project.formatting.nodes import Bracket, Leaf, Node, is_comment, read_nodes
from vde_dagster.project.formatting.queries import QueryLayout, remark, split_list
from vde_dagster.project.properties.header import parse_header
from vde_dagster.project.reading.statements import is_header, split_blocks
from vde_dagster.project.settings import LayoutOptions, Settings
from vde_dagster.sql.scanner import BACKSLASH_DIALECTS, SourceText, Token, scan
from vde_dagster.sql.templates import JinjaBlock, blank_blocks, find_jinja_blocks


def format_text(path: Path, text: str, settings: Settings, options: LayoutOptions) -> str | None:
    """Format a SQL file; return None if its property `formatting` is false.

    Raises:
        ProjectError: The file is malformed, or formatting would change words or comments.
    """
    source = SourceText(path, text)
    if not _is_formatted(source, settings):
        return None
    made = format_source(source, settings.dialect, options)
    if _tokens_to_keep(source, settings.dialect) != _tokens_to_keep(
        SourceText(path, made), settings.dialect
    ):
        raise source.error("formatting would change words or comments of the file", 0)
    return made


def _is_formatted(source: SourceText, settings: Settings) -> bool:
    if "formatting" not in settings.model_defaults and "formatting" not in source.text.lower():
        return True
    default = str(settings.model_defaults.get("formatting", True)).lower() != "false"
    backslash = settings.dialect in BACKSLASH_DIALECTS
    comments = [b for b in find_jinja_blocks(source, backslash=backslash) if b.kind == "comment"]
    blocks = split_blocks(blank_blocks(source, comments), settings.dialect)
    values = (block.header.properties.get("formatting") for block in blocks)
    return all(default if value is None else value.boolean() for value in values)


def _tokens_to_keep(source: SourceText, dialect: str) -> tuple[list[str], list[str], list[str]]:
    """Return three lists of texts that must not change: words and signs, comments, templates."""
    backslash = dialect in BACKSLASH_DIALECTS
    blocks = find_jinja_blocks(source, backslash=backslash)
    plain = blank_blocks(source, blocks)
    words: list[str] = []
    comments: list[str] = []
    try:
        for token in scan(plain, backslash=backslash):
            if token.kind == "comment":
                comments.append(token.text)
            else:
                words.append(token.text.upper() if token.kind == "word" else token.text)
    except ProjectError:  # The file's header names another dialect.
        words.append(plain.text)
    return words, comments, [source.text[block.start : block.end] for block in blocks]


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement with its tokens and comments, or the comments before a block of Jinja."""

    tokens: tuple[Token, ...]
    end: Token | None = None
    block: JinjaBlock | None = None


def format_source(source: SourceText, dialect: str, options: LayoutOptions) -> str:
    """Format the headers and queries of a SQL file.

    `dialect` is the SQLGlot dialect of a file that names no dialect.

    Raises:
        ProjectError: A quote or a macro's bracket is not closed, or a header is malformed.
    """
    layout = QueryLayout(options)
    parts: list[Document] = []
    position, inside = 0, False
    for piece in _split_statements(source, dialect):
        parts.append(_statement_document(source, position, piece, layout, options))
        words = [token.text.upper() for token in piece.tokens if token.kind == "word"]
        inside = (inside or words == ["ON_VIRTUAL_UPDATE_BEGIN"]) and words != [
            "ON_VIRTUAL_UPDATE_END"
        ]
        parts.append(HARD if inside else BLANK)
        position = _statement_end(piece, position)
    return render_document(tuple(parts), options.max_text_width) + "\n"


def _statement_end(piece: _Statement, position: int) -> int:
    if piece.block is not None:
        return piece.block.end
    if piece.end is not None:
        return piece.end.end
    return piece.tokens[-1].end if piece.tokens else position


def _statement_document(
    source: SourceText,
    position: int,
    piece: _Statement,
    layout: QueryLayout,
    options: LayoutOptions,
) -> Document:
    first = next((n for n, one in enumerate(piece.tokens) if one.kind != "comment"), None)
    comments, tokens = piece.tokens[:first], piece.tokens[first:] if first is not None else ()
    parts: list[Document] = []
    end = position
    for comment in comments:
        begins = "\n" in source.text[end : comment.start] or not end
        parts += [Remark(comment.text, behind=not begins), HARD]
        end = comment.end
    if piece.block is not None:
        parts.append(source.text[piece.block.start : piece.block.end])
    elif tokens:
        parts.append(_sql_document(source, tokens, layout, options))
    if piece.end is not None:
        parts.append(";")
    return tuple(parts)


def _sql_document(
    source: SourceText, tokens: Sequence[Token], layout: QueryLayout, options: LayoutOptions
) -> Document:
    words = [token for token in tokens if token.kind != "comment"]
    nodes = read_nodes(source, tokens)
    if is_header(words):
        return header_document(nodes, options.pad)
    named = [node.word for node in nodes if isinstance(node, Leaf)]
    first = nodes[0]
    begins = not isinstance(first, Leaf) or first.word in ("VALUES", "FROM")
    if begins or any(word in ("SELECT", "WITH") for word in named):
        return layout.query(nodes)
    return source.text[tokens[0].start : tokens[-1].end]


def _split_statements(source: SourceText, default_dialect: str) -> Iterator[_Statement]:
    backslash = default_dialect in BACKSLASH_DIALECTS
    templates = find_jinja_blocks(source, backslash=backslash)
    blocks = {block.start: block for block in templates if block.kind != "comment"}
    comments = [
        Token("comment", source.text[one.start : one.end], one.start)
        for one in templates
        if one.kind == "comment"
    ]
    plain = blank_blocks(source, templates)
    dialect, position = default_dialect, 0
    while True:
        scanned = scan(plain, position, backslash=dialect in BACKSLASH_DIALECTS)
        ahead = [one for one in comments if one.start >= position]
        piece = _read_statement(merge(scanned, ahead, key=attrgetter("start")), blocks)
        if piece.tokens or piece.end or piece.block:
            yield piece
        words = [token for token in piece.tokens if token.kind != "comment"]
        if words and is_header(words):
            named = parse_header(plain, words).properties.get("dialect")
            dialect = named.sql_dialect() if named else default_dialect
        if piece.end is None and piece.block is None:
            return
        position = _statement_end(piece, position)


def _read_statement(following: Iterable[Token], blocks: dict[int, JinjaBlock]) -> _Statement:
    tokens: list[Token] = []
    for token in following:
        if token.text == ";":
            return _Statement(tuple(tokens), end=token)
        if token.start in blocks:
            return _Statement(tuple(tokens), block=blocks[token.start])
        tokens.append(token)
    return _Statement(tuple(tokens))


_ONE_ITEM_PER_LINE = ("kind", "columns")
"""Properties with a line for every item in brackets."""

_CALL_LISTS = ("audits", "signals")
"""Properties whose items are calls with brackets."""


def header_document(nodes: Sequence[Node], pad: int) -> Document:
    """Lay out a header, `MODEL (…)`, with one property per line, indented by `pad` spaces."""
    parts: list[Document] = []
    for node in nodes:
        if isinstance(node, Bracket):
            properties = [
                (
                    Group(
                        _value_document(
                            own, pad, _splittable_depth(own), wide=_name(own) in _ONE_ITEM_PER_LINE
                        )
                    ),
                    behind,
                )
                for own, behind in split_list(node.inside)
            ]
            parts.append((" (", Nest(pad, (HARD, _join_items(properties, HARD))), HARD, ")"))
        else:
            parts.append(remark(node) if is_comment(node) else node.text.upper())
    return tuple(parts)


def _name(nodes: Sequence[Node]) -> str:
    first = next((node for node in nodes if not is_comment(node)), None)
    return first.text.lower() if isinstance(first, Leaf) else ""


def _splittable_depth(nodes: Sequence[Node]) -> int:
    """Return the maximum depth of the brackets that may be split into lines."""
    # Versions include the spaces in deeper brackets, so these must not be split.
    return 2 if _name(nodes) in _CALL_LISTS else 1


def _join_items(items: Sequence[tuple[Document, list[Leaf]]], between: Document) -> Document:
    parts: list[Document] = []
    for number, (own, behind) in enumerate(items):
        last = number == len(items) - 1
        parts += [own, () if last else ",", tuple(map(remark, behind)), () if last else between]
    return tuple(parts)


def _value_document(
    nodes: Sequence[Node], pad: int, levels: int, *, wide: bool = False
) -> Document:
    parts: list[Document] = []
    for number, node in enumerate(nodes):
        first = node.opening if isinstance(node, Bracket) else node
        if number and not is_comment(node) and not first.adjacent:
            parts.append(LINE if first.begins_line else " ")
        if isinstance(node, Bracket):
            parts.append(_bracket_document(node, pad, levels, wide=wide))
        else:
            parts.append(remark(node) if is_comment(node) else node.text)
    return tuple(parts)


def _bracket_document(bracket: Bracket, pad: int, levels: int, *, wide: bool) -> Document:
    opening, inside, closing = bracket.opening.text, bracket.inside, bracket.closing.text
    if not inside or levels < 1 or opening == "<":
        ends = (_first_leaf(bracket), bracket.closing)
        edges = ["" if one.adjacent or one.kind == "comment" else " " for one in ends]
        return Nest(pad, (opening, edges[0], _value_document(inside, pad, 0))), edges[1], closing
    items = [
        (Group(_value_document(own, pad, levels - 1)), behind) for own, behind in split_list(inside)
    ]
    between, edge = (HARD, HARD) if wide else (LINE, SOFT)
    return Group((opening, Nest(pad, (edge, _join_items(items, between))), edge, closing))


def _first_leaf(bracket: Bracket) -> Leaf:
    first = bracket.inside[0] if bracket.inside else bracket.closing
    return first.opening if isinstance(first, Bracket) else first
