"""Values as Spark groups rows by them, so that those are one group that are the same value."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vde_dagster.base.names import quote


def grouped_by(value: str, type_: str) -> str:
    """Write what rows are grouped by in place of a value; the value itself where that does.

    It does not for a map: Spark 4.1 sorts maps to group by them, and takes NULL for 0, false or
    1970-01-01 while it does (of Iceberg's own arrays it fails). Nor for a variant, which cannot be
    grouped by at all.

    Args:
        value: Spark SQL of the value, of which `.field` can be read.
        type_: Its Spark SQL type.

    >>> grouped_by("c0", "INT"), grouped_by("c0", "MAP<STRING, INT>")
    ('c0', 'array_sort(map_entries(c0))')
    >>> grouped_by("c0", "array<map<string,int>>")
    'transform(c0, x0 -> array_sort(map_entries(x0)))'
    >>> grouped_by("c0", "struct<a:int,b:map<string,int>>")
    "IF(c0 IS NULL, NULL, named_struct('f0', c0.`a`, 'f1', array_sort(map_entries(c0.`b`))))"
    """
    return _form(value, type_.strip(), 0)


_NESTED = re.compile(r"(array|map|struct)\s*<(.*)>", re.IGNORECASE | re.DOTALL)
_FIELD = re.compile(r"(`(?:[^`]|``)*`|[^\s:`]+)\s*:?\s*(.*)", re.DOTALL)
_PIECE = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|.", re.DOTALL)
_MAP = re.compile(r"\bmap\s*<", re.IGNORECASE)


def _form(value: str, type_: str, depth: int) -> str:
    if type_.lower() == "variant":
        return f"concat(schema_of_variant({value}), to_json({value}))"
    nested = _NESTED.fullmatch(type_)
    if nested is None or not _MAP.search(type_):
        return value
    kind, parts = nested[1].lower(), list(_parts(nested[2]))
    own = f"x{depth}"
    if kind == "array":
        return f"transform({value}, {own} -> {_form(own, parts[0], depth + 1)})"
    if kind == "map":
        entries = f"map_entries({value})"
        key, held = (
            _form(f"{own}.{name}", part, depth + 1)
            for name, part in zip(("key", "value"), parts, strict=True)
        )
        if (key, held) != (f"{own}.key", f"{own}.value"):
            entries = f"transform({entries}, {own} -> struct({key} AS k, {held} AS v))"
        return f"array_sort({entries})"
    fields = []
    for number, part in enumerate(parts):
        match = _FIELD.fullmatch(part)
        assert match is not None, part
        name = match[1][1:-1].replace("``", "`") if match[1].startswith("`") else match[1]
        fields.append(f"'f{number}', {_form(f'{value}.{quote(name)}', match[2], depth)}")
    return f"IF({value} IS NULL, NULL, named_struct({', '.join(fields)}))"


def _parts(inner: str) -> Iterator[str]:
    """Split what is between angle brackets at its own commas."""
    depth, begun = 0, 0
    for piece in _PIECE.finditer(inner):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(piece[0], 0)
        if piece[0] == "," and not depth:
            yield inner[begun : piece.start()].strip()
            begun = piece.end()
    if inner[begun:].strip():
        yield inner[begun:].strip()
