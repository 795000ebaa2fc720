"""Injective hashing: every value is written with its kind and its length before it is hashed."""

from __future__ import annotations

from collections.abc import Iterable
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
    out: list[bytes] = []
    for part in parts:
        if type(part) is bytes:
            # Nearly every part is another digest.
            out.append(_OF_A_DIGEST if len(part) == DIGEST_BYTES else b"b%d:" % len(part))
            out.append(part)
        elif type(part) is str:
            raw = part.encode("utf-8", "surrogatepass")
            out.append(b"s%d:" % len(raw))
            out.append(raw)
        elif part is None:
            out.append(b"n:")
        elif type(part) is bool:
            out.append(b"t:" if part else b"f:")
        else:
            assert isinstance(part, int)
            out.append(b"i%d:" % part)
    return blake2b(b"".join(out), digest_size=DIGEST_BYTES).digest()


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
