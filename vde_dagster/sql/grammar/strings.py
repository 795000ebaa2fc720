"""Values of Spark's string literals, with adjacent pieces, escapes and raw strings."""

from __future__ import annotations

import re

_PIECE = re.compile(
    r"(?P<raw>[rR])?(?:'(?P<single>(?:[^'\\]|\\.|'')*)'|\"(?P<double>(?:[^\"\\]|\\.|\"\")*)\")",
    re.DOTALL,
)
_RAW = re.compile(r"[rR](?:'([^']*)'|\"([^\"]*)\")")
_ESCAPE = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))|(''|\"\")", re.DOTALL
)
_NAMED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_KEPT = "%_"
"""Characters before which Spark keeps a backslash, because LIKE needs it."""


def read_string(written: str) -> str | None:
    r"""Return the value of a string literal as written, or None for any other text.

    Adjacent strings are joined.

    >>> read_string("'to' 'day'"), read_string(r"'\u0074oday'"), read_string(r"r'\d'")
    ('today', 'today', '\\d')
    """
    values: list[str] = []
    at = 0
    while at < len(written):
        if written[at].isspace():
            at += 1
            continue
        found = _RAW.match(written, at)
        if found is not None:
            values.append(found[1] if found[1] is not None else found[2])
        else:
            found = _PIECE.match(written, at)
            if found is None or found["raw"]:
                return None
            inner = found["single"] if found["single"] is not None else found["double"]
            values.append(_unescape(inner, found[0][-1]))
        at = found.end()
    return "".join(values)


def _unescape(inner: str, quote: str) -> str:
    def value(found: re.Match[str]) -> str:
        short, long, octal, single, doubled = found.groups()
        if doubled is not None:
            return quote if doubled[0] == quote else doubled
        if short or long:
            point = int(short or long, 16)
            return chr(point) if point <= 0x10FFFF else found[0]
        if octal:
            return chr(int(octal, 8))
        return found[0] if single in _KEPT else _NAMED.get(single, single)

    return _ESCAPE.sub(value, inner)
