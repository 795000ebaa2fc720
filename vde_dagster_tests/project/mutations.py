"""Ways to spoil a file: byte by byte, word by word, and in the large."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

Mutation = Callable[[bytes, random.Random], bytes]

_WORDS = re.compile(rb"\w+|\s+|[^\w\s]")
_PIECES = (
    b"\x00",
    b"\xff\xfe",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    "İﬀ\u2028\u200b😀".encode(),
    b"\r",
    b"\r\n\r",
    b"\x0c",
    b"\x1a",
    b"'",
    b'"',
    b"`",
    b"'''",
    b"--",
    b"/*",
    b"*/",
    b"/*+",
    b"(",
    b")",
    b"{{ x }}",
    b"{% if x %}",
    b"{# x #}",
    b"@",
    b"@x",
    b"@{x}",
    b"@VAR('x')",
    b"@EACH([a, b], x -> @x)",
    b"@IF(",
    b"@DEF(a, @a)",
    b"${x}",
    b";",
    b";;",
    b",,",
    b"\\",
    b"1e999",
    b"99999999999999999999999999",
    b"2024-13-45",
    b"&a [*a, *a]",
    b"<<: *a",
    b"!!python/object:os.system",
    b"- ",
    b": ",
    b"[[[[",
    b"%",
    b"#",
    b"~",
)
_NESTS = (
    (b"(", b")"),
    (b"[", b"]"),
    (b"{", b"}"),
    (b"(SELECT * FROM ", b")"),
    (b"CASE WHEN a THEN ", b" END"),
    (b"CAST(", b" AS INT)"),
    (b"ARRAY<", b">"),
    (b"NOT ", b""),
    (b"- ", b""),
    (b"@IF(TRUE, ", b")"),
    (b"/*", b"*/"),
    (b"f(", b")"),
    (b"x -> ", b""),
    (b"lambda: ", b""),
    (b"- - ", b""),
    (b"a: {", b"}"),
)


def _place(data: bytes, rng: random.Random) -> int:
    return rng.randint(0, len(data))


def _span(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = _place(data, rng)
    return start, min(len(data), start + rng.choice((1, 2, 5, 20, 200)))


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    """Change some bytes."""
    spoilt = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if spoilt:
            spoilt[rng.randrange(len(spoilt))] ^= 1 << rng.randrange(8)
    return bytes(spoilt)


def delete(data: bytes, rng: random.Random) -> bytes:
    """Leave a stretch out."""
    start, end = _span(data, rng)
    return data[:start] + data[end:]


def truncate(data: bytes, rng: random.Random) -> bytes:
    """Keep only the beginning."""
    return data[: _place(data, rng)]


def duplicate(data: bytes, rng: random.Random) -> bytes:
    """Repeat a stretch, once or many times."""
    start, end = _span(data, rng)
    return data[:start] + data[start:end] * rng.choice((2, 3, 50, 1000)) + data[end:]


def insert_piece(data: bytes, rng: random.Random) -> bytes:
    """Put in what is likely to hurt."""
    for _ in range(rng.choice((1, 1, 3))):
        at = _place(data, rng)
        data = data[:at] + rng.choice(_PIECES) * rng.choice((1, 1, 1, 40)) + data[at:]
    return data


def _words(data: bytes) -> list[bytes]:
    return _WORDS.findall(data)


def swap_words(data: bytes, rng: random.Random) -> bytes:
    """Exchange two words or signs."""
    words = _words(data)
    if len(words) > 1:
        for _ in range(rng.choice((1, 2, 5))):
            one, other = rng.randrange(len(words)), rng.randrange(len(words))
            words[one], words[other] = words[other], words[one]
    return b"".join(words)


def drop_word(data: bytes, rng: random.Random) -> bytes:
    """Leave a word or a sign out."""
    words = _words(data)
    if words:
        del words[rng.randrange(len(words))]
    return b"".join(words)


def double_word(data: bytes, rng: random.Random) -> bytes:
    """Repeat a word or a sign."""
    words = _words(data)
    if words:
        at = rng.randrange(len(words))
        words[at : at + 1] = [words[at]] * rng.choice((2, 2, 30))
    return b"".join(words)


def long_name(data: bytes, rng: random.Random) -> bytes:
    """Make a word absurdly long."""
    words = _words(data)
    names = [i for i, word in enumerate(words) if word[:1].isalpha()]
    if names:
        words[rng.choice(names)] = b"a" * rng.choice((100, 300, 5000, 150_000))
    return b"".join(words)


def nest(data: bytes, rng: random.Random) -> bytes:
    """Nest a stretch deeply."""
    words = _words(data)
    at = rng.randint(0, len(words))
    opening, closing = rng.choice(_NESTS)
    depth = rng.choice((5, 40, 150, 1000, 20_000))
    middle = words[at : at + 1]
    return b"".join(
        [*words[:at], opening * depth, *middle, closing * depth, *words[at + len(middle) :]]
    )


def blank_lines(data: bytes, rng: random.Random) -> bytes:
    """Put blanks or line ends into the text."""
    at = _place(data, rng)
    blank = rng.choice((b"\n", b"\r", b" ", b"\t", b"\r\n", b"\n \n"))
    return data[:at] + blank * rng.choice((1, 20, 5000)) + data[at:]


def swap_lines(data: bytes, rng: random.Random) -> bytes:
    """Exchange lines, or repeat one."""
    lines = data.splitlines(keepends=True)
    if lines:
        one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        lines[one], lines[other] = lines[other], lines[one] * rng.choice((1, 2, 100))
    return b"".join(lines)


def other_encoding(data: bytes, rng: random.Random) -> bytes:
    """Write the text in another encoding, with a letter that not all of them have."""
    text = data.decode("utf-8", "ignore")
    at = rng.randint(0, len(text))
    text = text[:at] + "ä" + text[at:]
    return text.encode(rng.choice(("latin-1", "utf-16", "utf-32", "cp1252")), "ignore")


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    delete,
    truncate,
    duplicate,
    insert_piece,
    insert_piece,
    swap_words,
    drop_word,
    double_word,
    long_name,
    nest,
    blank_lines,
    swap_lines,
    other_encoding,
)


def mutate(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Spoil a file in one to three ways; return it and their names."""
    names: list[str] = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        mutation = rng.choice(MUTATIONS)
        names.append(mutation.__name__)
        data = mutation(data, rng)
    return data, "+".join(names)
