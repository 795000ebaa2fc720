"""Names of models, as typed and as quoted for Spark SQL; and the current user's name."""

from __future__ import annotations

import getpass
import re
import unicodedata
from typing import NamedTuple

from vde_dagster.errors import UsageError, shortened

LONGEST = 190
"""Maximum bytes in a part of a model's name, to which environments add their own name."""
_PIECE = re.compile(r'`(?:[^`]|``)*(?:`|$)|"(?:[^"]|"")*(?:"|$)|\.|[^.`"]+')


class ModelName(NamedTuple):
    """A model's two-part name, `namespace.name`, in lower case.

    Args:
        namespace: The schema of the model's view in production.
    """

    # Spark resolves identifiers without regard to case, so names are in lower case. The class is a
    # tuple, because a plan of thousands of models compares and looks up many names.
    namespace: str
    name: str

    @staticmethod
    def split(text: str) -> list[str]:
        """Split a dotted SQL identifier at the dots outside back quotes or double quotes."""
        parts = [""]
        for piece in _PIECE.findall(text):
            if piece == ".":
                parts.append("")
            elif piece[0] in '`"':
                quoted = piece[1:].removesuffix(piece[0]) if len(piece) > 1 else ""
                parts[-1] += quoted.replace(piece[0] * 2, piece[0])
            else:
                parts[-1] += piece
        return [part.strip() for part in parts]

    @classmethod
    def parse(cls, text: str, default_namespace: str = "default") -> ModelName:
        """Read a model's name: `namespace.name`, `name` or their quoted spellings.

        Raises:
            UsageError: The text has more than two parts, or a part is empty or too long.
        """
        parts = cls.split(text)
        if len(parts) == 1:
            parts = [default_namespace, *parts]
        if len(parts) != 2 or not all(parts):
            raise UsageError(
                f"'{text}' is not a model's name",
                hint="write it as schema.name, for example marts.daily_sales",
            )
        for part in parts:
            if (size := len(part.encode())) > LONGEST:
                raise UsageError(
                    f"the name '{shortened(part, 40)}' has {size} bytes",
                    hint=f"use at most {LONGEST} bytes: catalogs and file systems allow 255, and "
                    "environments extend the name",
                )
        return cls(parts[0].lower(), parts[1].lower())

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


def find_name_flaw(part: str) -> str | None:
    """Return the reason why a part of a name cannot be the name of a file or folder, or None.

    >>> find_name_flaw("daily sales"), find_name_flaw("../escaped")
    (None, "contains '/'")
    """
    for sign in part:
        if sign in "/\\":
            return f"contains '{sign}'"
        if unicodedata.category(sign) in _CONTROLS or sign in _REORDERING:
            return f"contains the control character U+{ord(sign):04X}"
    if ".." in part:
        return "contains '..'"
    if part.strip() != part or part.strip(".") != part:
        return "begins or ends with a dot or a blank"
    if not part:
        return "is empty"
    size = len(part.encode())
    return f"has {size} bytes, more than {LONGEST}" if size > LONGEST else None


_CONTROLS = frozenset({"Cc", "Cs", "Zl", "Zp"})
_REORDERING = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
"""Invisible Unicode characters that make different names look alike."""


def quote(*parts: str) -> str:
    """Quote a name of one or more parts for Spark SQL (back quotes, doubled inside)."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def quote_if_needed(name: str) -> str:
    """Return a name for a query, in backticks unless it is an identifier."""
    return name if name.isidentifier() else quote(name)


def quote_as(column: str, name: str) -> str:
    """Write a column for a SELECT list, with `AS name` if the name differs, in Spark SQL."""
    return quote(column) if column == name else f"{quote(column)} AS {quote(name)}"


def string_literal(text: str) -> str:
    """Write a text as a Spark SQL literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def current_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user may not have a name.
        return "unknown"


def mark_unverified(name: str) -> str:
    """Mark a user's name as typed, not confirmed by a login: `anna (not verified)`."""
    return f"{name} (not verified)"
