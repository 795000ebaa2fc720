"""How laid out SQL shall look: the names are those of SQLMesh's `format` section."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal


@dataclass(frozen=True, slots=True)
class LayoutOptions:
    """How laid out SQL shall look.

    Args:
        indent: Blanks before what a clause has.
        pad: Blanks before what brackets have.
        max_text_width: Characters of a line, from which on lists and conditions are broken.
        leading_comma: Whether commas begin lines.
        normalize_functions: `upper` or `lower` for names of functions; they stay as they are
            written otherwise.
        keywords: Whether keywords are written in capitals.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    indent: int = 2
    pad: int = 2
    max_text_width: int = 80
    leading_comma: bool = False
    normalize_functions: Literal["", "upper", "lower"] = ""
    keywords: bool = True
