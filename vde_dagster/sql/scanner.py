"""A small scanner of SQL text, for finding headers, statements and macro calls.

It recognizes strings, quoted identifiers, comments and brackets, but no grammar, because a text may
still contain macros. It is fast to import.

It also limits the nesting of brackets. In SQLGlot's compiled parser, twenty thousand brackets crash
the process, and a few hundred nested types take minutes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from vde_dagster.errors import ProjectError, SourceLocation, Unknown

BACKSLASH_DIALECTS = frozenset(
    {"spark", "spark2", "databricks", "hive", "bigquery", "mysql", "snowflake", "clickhouse"}
    | {"doris", "redshift", "starrocks"}
)

OPENING = {"(": ")", "[": "]", "{": "}"}
CLOSING = frozenset(OPENING.values())


def _quote_patterns(backslash: bool) -> tuple[str, str]:
    escape = r"|\\." if backslash else ""
    body = r"[^'\\]" if backslash else r"[^']"
    dbody = r'[^"\\]' if backslash else r'[^"]'
    single, double = rf"'(?:{body}{escape}|'')*'", rf'"(?:{dbody}{escape}|"")*"'
    string = rf"[rR]'[^']*'|{single}|{double}"
    return string, r"`(?:[^`]|``)*`"


def _pattern(backslash: bool) -> re.Pattern[str]:
    string, quoted = _quote_patterns(backslash)
    return re.compile(
        rf"""
        \s*(?:
        (?P<comment>--[^\n]*)
      | (?P<block>/\*)
      | (?P<string>{string})
      | (?P<quoted>{quoted})
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w*)
      | (?P<word>[^\W\d]\w*)
      | (?P<punct>:=|->|=>|::|\S)
        )""",
        re.VERBOSE | re.DOTALL,
    )


def _run_pattern(backslash: bool, signs: str, *others: str) -> re.Pattern[str]:
    string, quoted = _quote_patterns(backslash)
    one = [r"(?![rR]')\w+", rf"[\s{signs}]+", r"-(?!-)", r"/(?!\*)", *others, string, quoted]
    return re.compile(f"(?:{'|'.join(one)})*", re.DOTALL)


_SIGNS = r"().=<>*+%|&!\[\]{}:$#?^~\\"
_PATTERNS = {backslash: _pattern(backslash) for backslash in (False, True)}
_PLAIN = {
    # A statement up to its semicolon, or up to what only the scanner understands.
    backslash: _run_pattern(
        backslash, _SIGNS + "@", r",(?!\s*(?:,|--|/\*))", r"--[^\n]*\n(?=\s*[^\s;/-])"
    )
    for backslash in (False, True)
}
_BEFORE_AT = {
    # A text up to an `@`, or up to what only the scanner understands.
    backslash: _run_pattern(backslash, _SIGNS + ";,", r"--[^\n]*")
    for backslash in (False, True)
}


class Token(NamedTuple):
    """A piece of SQL text as written.

    Args:
        kind: `word`, `string`, `quoted`, `number`, `punct`, `comment` or `hint`.
    """

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @staticmethod
    def split(text: str | SourceText, dialect: str = "spark") -> list[Token]:
        """Split a text into tokens, without comments.

        Raises:
            ProjectError: A string, quoted identifier or comment is not closed.
        """
        source = text if isinstance(text, SourceText) else SourceText(Path("query"), text)
        backslash = dialect in BACKSLASH_DIALECTS
        return [token for token in scan(source, backslash=backslash) if token.kind != "comment"]

    def is_word(self, *words: str) -> bool:
        """Return whether the token, in any case, is one of these upper-case words."""
        return self.kind == "word" and self.text.upper() in words

    def is_string(self, dialect: str) -> bool:
        """Return whether the token is a string; double quotes are identifiers in some dialects."""
        double = dialect in BACKSLASH_DIALECTS
        return self.kind == "string" and (double or self.text[-1] == "'")


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a file or of a part of it, for errors with line and column."""

    path: Path
    text: str

    def location(self, offset: int) -> SourceLocation:
        offset = min(max(offset, 0), len(self.text))
        line = self.text.count("\n", 0, offset) + 1
        column = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        return SourceLocation(self.path, line, column)

    def stretch(self, location: SourceLocation) -> tuple[int, int]:
        """Return the range from a location to its line's end; without a line, the whole text."""
        if location.line is None:
            return 0, len(self.text)
        start = 0
        for _ in range(location.line - 1):
            start = self.text.find("\n", start) + 1 or len(self.text)
        end = self.text.find("\n", start)
        end = len(self.text) if end < 0 else end
        return min(start + (location.column or 1) - 1, end), end

    def error(
        self, message: str, offset: int, hint: str | None = None, *, unknown: Unknown | None = None
    ) -> ProjectError:
        """Create an error with the line and column of an offset."""
        return ProjectError(message, hint=hint, location=self.location(offset), unknown=unknown)

    def closing(self, tokens: list[Token], opening: int) -> int:
        """Return the index of the token that closes the bracket at index `opening`.

        Raises:
            ProjectError: The bracket is not closed, or closed by a bracket of another kind.
        """
        stack: list[Token] = []
        for index in range(opening, len(tokens)):
            token = tokens[index]
            if token.kind != "punct":
                continue
            if token.text in OPENING:
                stack.append(token)
            elif token.text in CLOSING:
                if OPENING[stack[-1].text] != token.text:
                    raise self.error(
                        f"'{token.text}' does not close '{stack[-1].text}'", token.start
                    )
                stack.pop()
                if not stack:
                    return index
        unclosed = tokens[opening]
        raise self.error(
            f"'{unclosed.text}' is never closed",
            unclosed.start,
            f"add the missing '{OPENING[unclosed.text]}'",
        )


def scan(
    source: SourceText, start: int = 0, end: int | None = None, *, backslash: bool = True
) -> Iterator[Token]:
    """Yield the tokens of a part of a text, including comments and hints, without whitespace.

    Args:
        backslash: Whether a backslash escapes the next character inside quotes, as in Spark.

    Raises:
        ProjectError: A string, quoted identifier or comment is not closed.
    """
    text = source.text
    stop = len(text) if end is None else end
    match = _PATTERNS[backslash].match
    position = start
    while (found := match(text, position, stop)) is not None:  # None: only blanks are left
        kind = found.lastgroup or "punct"
        value, at = found.group(kind), found.start(kind)
        position = found.end()
        if kind == "block":
            position = _comment_end(source, at, stop)
            value = text[at:position]
            kind = "hint" if value.startswith("/*+") else "comment"
        elif kind == "punct" and value in "'\"`":
            what = "identifier" if value == "`" else "string"
            raise source.error(f"this {what} is not closed", at, f"end it with another {value}")
        yield Token(kind, value, at)


def find_statement_end(source: SourceText, start: int, *, backslash: bool = True) -> int | None:
    """Return the offset of a statement's semicolon, or of the text's end, without scanning tokens.

    Return None if `scan` is needed, as for `/*`, consecutive commas or an unclosed string.
    """
    found = _PLAIN[backslash].match(source.text, start)
    end = found.end() if found else start
    return end if source.text[end : end + 1] in ("", ";") else None


def find_at_sign(source: SourceText, start: int, end: int, *, backslash: bool = True) -> int | None:
    """Find the next `@` outside strings, quoted identifiers and comments.

    Raises:
        ProjectError: A string, quoted identifier or comment is not closed.
    """
    found = _BEFORE_AT[backslash].match(source.text, start, end)
    position = found.end() if found else start
    if position == end or source.text[position] == "@":
        return position if position < end else None
    for token in scan(source, position, end, backslash=backslash):
        if token.text == "@":
            return token.start
    return None


_COMMENT_MARK = re.compile(r"/\*|\*/")


def _comment_end(source: SourceText, start: int, stop: int) -> int:
    # Comments nest, as in Spark.
    depth = 0
    for mark in _COMMENT_MARK.finditer(source.text, start, stop):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    raise source.error("this comment is not closed", start, "end it with */")


def split_top_level(
    tokens: list[Token], separator: str = ",", *, angles: bool = False
) -> list[list[Token]]:
    """Split tokens at a separator outside brackets. An empty last part is left out.

    Args:
        angles: Whether `<` and `>` are brackets too, as in types.
    """
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        if token.kind == "punct":
            if token.text in OPENING or (angles and token.text == "<"):
                depth += 1
            elif token.text in CLOSING or (angles and token.text == ">"):
                depth -= 1
            elif token.text == separator and depth == 0:
                parts.append([])
                continue
        parts[-1].append(token)
    if not parts[-1]:
        parts.pop()
    return parts


def unquote(token: Token) -> str:
    text = token.text
    if token.kind == "quoted":
        return text[1:-1].replace("``", "`")
    if token.kind == "string":
        if text[0] in "rR":
            return text[2:-1]
        mark, body = text[0], text[1:-1]
        return re.sub(r"\\(.)", r"\1", body.replace(mark * 2, mark), flags=re.DOTALL)
    return text


def join_text(tokens: list[Token]) -> str:
    """Return the text of consecutive tokens on one line, without comments."""
    pieces: list[str] = []
    previous: Token | None = None
    for token in tokens:
        if token.kind == "comment":
            continue
        if previous is not None and token.start > previous.end:
            pieces.append(" ")
        pieces.append(token.text)
        previous = token
    return "".join(pieces)


DEEPEST = 200
"""Maximum nesting of brackets, types and CASE, a little below the limit of Spark's parser."""

NESTED = "this is nested too deeply"
NESTED_HINT = "split it into several models or common table expressions"

_CASE = re.compile(r"\bcase\b", re.IGNORECASE)
_TYPES = ("ARRAY", "MAP", "STRUCT")


def find_too_deep(source: SourceText, *, backslash: bool = True) -> int | None:
    if not _may_be_deep(source.text):
        return None
    try:
        offset, depth = find_deepest(source, backslash=backslash, stop_at=DEEPEST + 1)
    except ProjectError:
        return None  # Something is not closed, which is a mistake of its own.
    return offset if depth > DEEPEST else None


def refuse_too_deep(source: SourceText, *, backslash: bool = True) -> None:
    """Raise a located ProjectError if a text is nested too deeply."""
    found = find_too_deep(source, backslash=backslash)
    if found is not None:
        raise source.error(NESTED, found, NESTED_HINT)


def nesting_error(source: SourceText, hint: str = NESTED_HINT) -> ProjectError:
    """Create the error for a text with too deep nesting, located at the deepest place."""
    try:
        offset, depth = find_deepest(source)
    except ProjectError:
        offset, depth = 0, 0
    if depth < DEEPEST // 10:
        # It is not brackets: a long chain of operators, which is mostly a long line.
        offset = source.text.find(max(source.text.split("\n"), key=len))
    return source.error(NESTED, offset, hint)


def _may_be_deep(text: str) -> bool:
    """Return whether a text has many opening brackets, or many CASEs in a long text."""
    # This check is much faster than `find_deepest`.
    brackets = sum(text.count(opening) for opening in OPENING)
    if brackets + text.count("<") > DEEPEST:
        return True
    return len(text) > 4 * DEEPEST and len(_CASE.findall(text)) > DEEPEST


def find_deepest(
    source: SourceText, *, backslash: bool = True, stop_at: int | None = None
) -> tuple[int, int]:
    """Return (offset, level) of the most deeply nested place. Stop at the level `stop_at`."""
    found, most = 0, 0
    levels: list[str] = []
    before = ""
    for token in scan(source, backslash=backslash):
        text = token.text
        if token.kind == "word":
            text = text.upper() if len(text) < 7 else text
            if text == "CASE":
                levels.append("END")
            elif text == "END" and levels and levels[-1] == "END":
                levels.pop()
        elif token.kind == "punct":
            if text in OPENING:
                levels.append(OPENING[text])
            elif text == "<" and before in _TYPES:
                levels.append(">")
            elif text in CLOSING or (text == ">" and levels and levels[-1] == ">"):
                while levels and levels.pop() != text:
                    pass  # A bracket closes what was left open within it.
        before = text
        if len(levels) > most:
            found, most = token.start, len(levels)
            if stop_at is not None and most >= stop_at:
                break
    return found, most
