"""Hashes of versions, ids and caches: 128 bits of BLAKE2b over an encoding without collisions.

Three functions encode their input differently; this cannot change, because existing versions, ids
and caches depend on it:

- `digest` hashes texts to hexadecimal digits, for snapshots, tables, plans and keys of the memo.
- `digest_values` hashes bytes, texts, integers and None to bytes, for the many nodes of queries;
  its input is mostly other digests.
- `content_digest` hashes the bytes of one file to hexadecimal digits.

>>> digest("a", "bc") == digest("ab", "c")
False
>>> digest("a", None) == digest("a", "")
False
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

DIGEST_BYTES = 16
_DIGEST_PREFIX = b"b%d:" % DIGEST_BYTES

Part = bytes | str | int | None


def digest(*parts: str | None) -> str:
    """Hash a sequence of texts to 32 hexadecimal digits; None differs from every text."""
    # The encoding is injective, so no two sequences collide by concatenation.
    texts = (None if part is None else part.encode("utf-8", "surrogatepass") for part in parts)
    return content_digest(
        b"".join(b"n;" if text is None else b"%d:%b" % (len(text), text) for text in texts)
    )


def content_digest(content: bytes) -> str:
    """Hash bytes as they are, to 32 hexadecimal digits."""
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def digest_values(*parts: Part) -> bytes:
    """Hash a sequence of values to 16 bytes."""
    # Nearly every part is another digest, or one of few texts.
    out = [
        _DIGEST_PREFIX + part
        if type(part) is bytes and len(part) == DIGEST_BYTES
        else _encode_text(part)
        if type(part) is str
        else _encode_part(part)
        for part in parts
    ]
    return blake2b(b"".join(out), digest_size=DIGEST_BYTES).digest()


@lru_cache(maxsize=4096)
def _encode_text(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return b"s%d:%b" % (len(raw), raw)


def _encode_part(part: Part) -> bytes:
    if type(part) is bytes:
        return b"b%d:%b" % (len(part), part)
    if part is None:
        return b"n:"
    if type(part) is bool:
        return b"t:" if part else b"f:"
    assert isinstance(part, int)
    return b"i%d:" % part


def digest_tagged(tag: str, parts: Iterable[Part]) -> bytes:
    """Hash values together with a tag, which separates the hashes of different kinds of objects."""
    return digest_values(tag, *parts)


def hex_or_text_bytes(version: str) -> bytes:
    """Return the bytes of a lower-case hexadecimal text, or the digest of any other text."""
    try:
        raw = bytes.fromhex(version)
    except ValueError:
        return digest_values("text", version)
    return raw if raw.hex() == version else digest_values("text", version)
