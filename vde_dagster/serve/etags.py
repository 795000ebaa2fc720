"""Entity tags: what a client has already is not sent again.

Source: RFC 9110, 8.8.3 and 13.1.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b


@dataclass(frozen=True)
class Tagged:
    """An answer that is given more than once.

    Args:
        content: The answer's content.
    """

    content: bytes

    @cached_property
    def tag(self) -> str:
        """Its strong tag: of all of it, also of the storage that clients are told of."""
        return f'"{blake2b(self.content, digest_size=16).hexdigest()}"'


def is_known(tag: str, if_none_match: str) -> bool:
    """Say whether a client that sends `If-None-Match` has what a tag stands for."""
    known = [one.strip() for one in if_none_match.split(",")]
    return known == ["*"] or tag.removeprefix("W/") in [one.removeprefix("W/") for one in known]
