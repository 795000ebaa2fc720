"""Hashes over an injective, length-prefixed encoding (BLAKE2b, 128 bits)."""

from __future__ import annotations

import hashlib


def digest(*parts: str | None) -> str:
    """Hash a sequence of texts, of which None differs from every text.

    Args:
        parts: Texts in order; the encoding is injective, so no two sequences collide by
            concatenation.

    Returns:
        32 hexadecimal digits.
    """
    out: list[bytes] = []
    for part in parts:
        if part is None:
            out.append(b"n;")
        else:
            data = part.encode("utf-8", "surrogatepass")
            out.append(b"%d:" % len(data))
            out.append(data)
    return hashlib.blake2b(b"".join(out), digest_size=16).hexdigest()
