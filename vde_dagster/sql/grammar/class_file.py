"""What a compiled Java class says of itself: constants, and predicates that are a name of its own.

The format is chapter 4 of the Java Virtual Machine Specification.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_WIDTHS = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4}
_WIDTHS |= {18: 4, 19: 2, 20: 2}
"""Bytes of a constant's value, by its tag; that of text (1) says its own length."""
_UTF8, _INTEGER, _LONG, _DOUBLE = 1, 3, 5, 6
_ALOAD_0, _IFEQ, _IFNE, _TABLESWITCH, _LOOKUPSWITCH, _IRETURN, _GETS = (
    *(0x2A, 0x99, 0x9A, 0xAA, 0xAB, 0xAC),
    (0xB4, 0xB6),
)


@dataclass(frozen=True, slots=True)
class Test:
    """A predicate that is a Boolean field or method, or its opposite.

    Args:
        name: The name of the field or method.
        negated: Whether the predicate holds where the field does not.
    """

    name: str
    negated: bool


class ClassFile:
    """A class as `javac` wrote it.

    Args:
        data: The bytes of the `.class` file.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 8
        self._pool = self._constants()
        self._skip(6)
        self._skip(2 * self._u2())
        self.integers: dict[str, int] = {}
        """Constants of whole numbers, by their names, in the order of the file."""
        self.texts: dict[str, str] = {}
        """Constants of text, likewise."""
        self._methods: dict[str, bytes] = {}
        for _ in range(self._u2()):
            self._field()
        for _ in range(self._u2()):
            self._method()

    def tests(self, suffix: str) -> dict[int, Test]:
        """Return the predicates of the methods whose names end so, by their numbers.

        Args:
            suffix: How the methods' names end; each is one `switch` over numbers.
        """
        found: dict[int, Test] = {}
        for name, code in self._methods.items():
            if name.endswith(suffix):
                for number, at in _cases(code):
                    test = self._test(code, at)
                    if test is not None:
                        found[number] = test
        return found

    def _test(self, code: bytes, at: int) -> Test | None:
        if code[at] != _ALOAD_0 or code[at + 1] not in _GETS:
            return None
        end = code[at + 4]
        if end not in (_IRETURN, _IFEQ, _IFNE):
            return None
        (member,) = struct.unpack_from(">H", code, at + 2)
        _, name_and_type = struct.unpack(">HH", self._value(member))
        name, _ = struct.unpack(">HH", self._value(name_and_type))
        return Test(self._text(name), end == _IFNE)

    def _constants(self) -> list[tuple[int, bytes]]:
        pool: list[tuple[int, bytes]] = [(0, b"")]
        count = self._u2()
        while len(pool) < count:
            tag = self._data[self._at]
            self._at += 1
            width = self._u2() if tag == _UTF8 else _WIDTHS[tag]
            pool.append((tag, self._data[self._at : self._at + width]))
            self._at += width
            if tag in (_LONG, _DOUBLE):
                pool.append((0, b""))
        return pool

    def _value(self, index: int) -> bytes:
        return self._pool[index][1]

    def _text(self, index: int) -> str:
        return _modified_utf8(self._value(index))

    def _field(self) -> None:
        self._skip(2)
        name = self._text(self._u2())
        self._skip(2)
        for attribute, body in self._attributes():
            if attribute != "ConstantValue":
                continue
            tag, value = self._pool[struct.unpack(">H", body)[0]]
            if tag == _INTEGER:
                self.integers[name] = struct.unpack(">i", value)[0]
            elif len(value) == 2:
                self.texts[name] = self._text(struct.unpack(">H", value)[0])

    def _method(self) -> None:
        self._skip(2)
        name = self._text(self._u2())
        self._skip(2)
        for attribute, body in self._attributes():
            if attribute == "Code":
                (length,) = struct.unpack_from(">I", body, 4)
                self._methods[name] = body[8 : 8 + length]

    def _attributes(self) -> list[tuple[str, bytes]]:
        found = []
        for _ in range(self._u2()):
            name = self._text(self._u2())
            (length,) = struct.unpack_from(">I", self._data, self._at)
            self._at += 4
            found.append((name, self._data[self._at : self._at + length]))
            self._at += length
        return found

    def _u2(self) -> int:
        (value,) = struct.unpack_from(">H", self._data, self._at)
        self._at += 2
        return int(value)

    def _skip(self, width: int) -> None:
        self._at += width


def _modified_utf8(data: bytes) -> str:
    """Decode Java's UTF-8, in which NUL has two bytes and each half of a surrogate pair three."""
    return data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")


def _cases(code: bytes) -> list[tuple[int, int]]:
    """Return the numbers, and where they lead, of a method that begins with a `switch`."""
    kind, at = code[1], 4
    if kind == _TABLESWITCH:
        low, high = struct.unpack_from(">ii", code, at + 4)
        jumps = struct.unpack_from(f">{high - low + 1}i", code, at + 12)
        return [(low + i, 1 + jump) for i, jump in enumerate(jumps)]
    if kind == _LOOKUPSWITCH:
        (count,) = struct.unpack_from(">i", code, at + 4)
        pairs = struct.unpack_from(f">{2 * count}i", code, at + 8)
        return [(number, 1 + jump) for number, jump in zip(pairs[::2], pairs[1::2], strict=True)]
    return []
