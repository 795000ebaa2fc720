"""Canonical form of a plan's file: other bytes for the same values are refused.

JSON allows many spellings of a value: whitespace, the order of keys, escapes, duplicate keys, NaN,
numbers that a parser rounds. Parsers read them differently, so a reviewer's tool could show other
values than vde applies.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from vde_dagster.errors import UsageError

_MOST_DIGITS = 19
"""Number of digits of the largest number in a plan, a signed 64-bit integer."""


def file_bytes(content: Mapping[str, Any]) -> bytes:
    """Encode a plan file's content as canonical JSON, see docs/signed_plans.md."""
    text = json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "surrogatepass")


def parse_json(data: bytes) -> Any:
    """Parse JSON, and refuse duplicate keys and numbers that other parsers may round.

    Raises:
        ValueError: The bytes are not JSON in UTF-8, a key occurs twice in an object, or a number is
            not finite or exceeds 64 bits.
        RecursionError: The values are nested too deeply.
    """
    return json.loads(
        data.decode("utf-8", "surrogatepass"),
        object_pairs_hook=_refuse_duplicates,
        parse_int=_parse_integer,
        parse_float=_parse_finite,
        parse_constant=_parse_finite,
    )


def require_canonical_form(path: Path, data: bytes, content: Mapping[str, Any]) -> None:
    """Check that a plan's file has exactly the bytes that `file_bytes` writes.

    Raises UsageError with the first line that differs.
    """
    spelled = file_bytes(content)
    if spelled == data:
        return
    pairs = zip(data.split(b"\n"), spelled.split(b"\n"), strict=False)
    line = 1 + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    raise UsageError(
        f"nothing was applied, because {path} is not in canonical form from line {line} on: "
        "whitespace, the order of keys, escapes and line ends of a plan must not change",
        hint="use the file as `vde plan ENV --save FILE` wrote it; formatters and Git's autocrlf "
        "change it",
    )


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key '{twice}' is duplicated in one object")
    return found


def _parse_integer(text: str) -> int:
    if len(text.lstrip("-")) > _MOST_DIGITS:
        raise ValueError(f"the number {text[:30]} does not fit 64 bits")
    return int(text)


def _parse_finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:30]} is not a finite number")
    return value
