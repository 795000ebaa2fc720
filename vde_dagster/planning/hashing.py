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
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        if part is None:
            state.update(b"n;")
        else:
            data = part.encode("utf-8", "surrogatepass")
            state.update(b"%d:" % len(data))
            state.update(data)
    return state.hexdigest()
