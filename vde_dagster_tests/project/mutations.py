"""Ways to spoil a file: byte by byte, word by word, and in the large."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import PurePath

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
    b"@DEF(twice, x -> @twice(@x));",
    b"@EACH(@EACH([1, 2], x -> @x), y -> @y)",
    b"@EVAL(9 ** 9 ** 9)",
    b"@REDUCE([], (x, y) -> x)",
    b"@IF(@a(@b(",
    b"@STAR(no.body)",
    b"@{@{x}}",
    b"@'@{x'",
    b"{{ 9 ** 9 ** 9 }}",
    b"{{ 'x' * 10 ** 10 }}",
    b"{{ twice(twice) }}",
    b"{{ ''.__class__.__mro__ }}",
    b"{{ env_var('NOBODY') }}",
    b"{{ 1 / 0 }}",
    b"{% for x in range(10 ** 9) %}{{ x }}{% endfor %}",
    b"{% macro twice(x) %}{{ twice(x) }}{% endmacro %}",
    b"{% include 'twice' %}",
    b"{% raw %}",
    b"JINJA_QUERY_BEGIN;",
    b"JINJA_END;",
    b"ON_VIRTUAL_UPDATE_BEGIN;",
    b"MODEL (name a.b, kind FULL);",
    b"AUDIT (name few);",
    b"blueprints @few(), ",
    b"kind CUSTOM (materialization 'no'), ",
)
_RUNNING = (
    b"raise SystemExit",
    b"raise Exception('x' * 10 ** 6)",
    b"print('said')",
    b"import nobody",
    b"import macros.halves, models.code",
    b"from sqlmesh import nobody",
    b"globals().clear()",
    b"f = lambda: f()\nf()",
    b"del model, macro",
    b"import os; os.chdir('/')",
    b"import sys; sys.modules.pop('shared.numbers', None); sys.path.clear()",
    b"import sys; sys.setrecursionlimit(50)",
    b"import warnings; warnings.simplefilter('error')",
    b"__name__ = None",
    b"class E(Exception):\n    def __str__(self):\n        raise E\nraise E",
    b"raise ValueError(*range(10 ** 5))",
)
_LAUGHS = b"\n".join(
    [b"l0: &l0 [x]"]
    + [b"l%d: &l%d [%s]" % (n, n, b", ".join([b"*l%d" % (n - 1)] * 9)) for n in range(1, 12)]
)
_VALUES = (
    b"null",
    b"true",
    b"[]",
    b"{}",
    b"[[1], {a: 2}]",
    b"-1",
    b"0",
    b"1.5",
    b"1" * 400,
    b"1" * 5_000,
    b"''",
    b"2024-02-30",
    b".nan",
    b"0x1F",
    b"(a := 1)",
    b"x -> x",
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


def other_value(data: bytes, rng: random.Random) -> bytes:
    """Put values of other types in the places of some."""
    words = _words(data)
    values = [i for i, word in enumerate(words) if word[:1].isalnum()]
    for _ in range(rng.choice((1, 1, 3))):
        if values:
            words[rng.choice(values)] = rng.choice(_VALUES)
    return b"".join(words)


def other_value_of_a_key(data: bytes, rng: random.Random) -> bytes:
    """Give a key of YAML or an argument of Python a value of another type."""
    keys = list(re.finditer(rb"(?<=\w)( ?[:=] ?)([^\n,]+)", data))
    if not keys:
        return data
    start, end = rng.choice(keys).span(2)
    return data[:start] + rng.choice(_VALUES) + data[end:]


def run_more(data: bytes, rng: random.Random) -> bytes:
    """Put in a line of Python that does something odd when it runs."""
    lines = data.splitlines(keepends=True)
    at = rng.randint(0, len(lines))
    near = lines[at] if at < len(lines) else b""
    margin = near[: len(near) - len(near.lstrip())].strip(b"\r\n")
    odd = margin + rng.choice(_RUNNING).replace(b"\n", b"\n" + margin) + b"\n"
    return b"".join([*lines[:at], odd, *lines[at:]])


def laugh(data: bytes, rng: random.Random) -> bytes:
    """Refer in YAML to lists of lists of lists, or to what refers to itself."""
    more = rng.choice((_LAUGHS, b"l: &l [*l]", b"l: &l {a: *l}", b"<<: &l {<<: *l}"))
    at = rng.choice((0, len(data)))
    return data[:at] + b"\n" + more + b"\n" + data[at:]


def whole(data: bytes, rng: random.Random) -> bytes:
    """Change the file as a whole: nothing in it, other line ends, a mark in front, itself twice."""
    return rng.choice(
        (
            b"",
            b"\n",
            b"\x00" * 100,
            bytes(rng.randrange(256) for _ in range(300)),
            data.replace(b"\n", b"\r\n"),
            data.replace(b"\n", b"\r"),
            data.replace(b"\n", b" "),
            b"\xef\xbb\xbf" + data,
            data + data,
            data[::-1],
            data.upper(),
        )
    )


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
    other_value,
    other_value_of_a_key,
    whole,
    nest,
    blank_lines,
    swap_lines,
    other_encoding,
)


_OF_LANGUAGES: dict[str, tuple[Mutation, ...]] = {
    ".py": (run_more, run_more, other_value_of_a_key),
    ".yaml": (laugh, other_value_of_a_key, other_value_of_a_key),
    ".toml": (other_value_of_a_key, other_value_of_a_key),
}


def mutate(path: str, data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Spoil a file in one to three ways; return it and their names."""
    names: list[str] = []
    ways = (*MUTATIONS, *_OF_LANGUAGES.get(PurePath(path).suffix, ()))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        mutation = rng.choice(ways)
        names.append(mutation.__name__)
        data = mutation(data, rng)
    return data, "+".join(names)
