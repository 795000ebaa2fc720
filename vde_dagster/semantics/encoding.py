"""Injective hashing: every value is written with its kind and its length before it is hashed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

DIGEST_BYTES = 16
_OF_A_DIGEST = b"b%d:" % DIGEST_BYTES

Part = bytes | str | int | None


def digest(*parts: Part) -> bytes:
    """Hash a sequence of values so that different sequences have different encodings.

    Args:
        parts: Bytes (usually other digests), text, integers (or booleans) and None.

    Returns:
        128 bits of BLAKE2b over the length-prefixed encoding of the values.
    """
    # Nearly every part is another digest, or one of few texts.
    out = [
        _OF_A_DIGEST + part
        if type(part) is bytes and len(part) == DIGEST_BYTES
        else _text(part)
        if type(part) is str
        else _encoded(part)
        for part in parts
    ]
    return blake2b(b"".join(out), digest_size=DIGEST_BYTES).digest()


@lru_cache(maxsize=4096)
def _text(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return b"s%d:%b" % (len(raw), raw)


def _encoded(part: Part) -> bytes:
    if type(part) is bytes:
        return b"b%d:%b" % (len(part), part)
    if part is None:
        return b"n:"
    if type(part) is bool:
        return b"t:" if part else b"f:"
    assert isinstance(part, int)
    return b"i%d:" % part


def digest_all(tag: str, parts: Iterable[Part]) -> bytes:
    """Hash a tagged sequence; the tag keeps different kinds of things apart."""
    return digest(tag, *parts)


def from_hex(version: str) -> bytes:
    """The bytes of a version; text that is not hexadecimal is hashed, so nothing is refused."""
    try:
        raw = bytes.fromhex(version)
    except ValueError:
        return digest("text", version)
    return raw if raw.hex() == version else digest("text", version)
