"""The settings by which a seed's CSV file is read; their names and meaning are those of pandas.

https://pandas.pydata.org/docs/reference/api/pandas.read_csv.html
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vde_dagster.base.suggestions import suggest

if TYPE_CHECKING:
    from vde_dagster.project.reading.header import Value

MISSING = (
    "",
    "#N/A",
    "#N/A N/A",
    "#NA",
    "-1.#IND",
    "-1.#QNAN",
    "-NaN",
    "-nan",
    "1.#IND",
    "1.#QNAN",
    "<NA>",
    "N/A",
    "NA",
    "NULL",
    "NaN",
    "None",
    "n/a",
    "nan",
    "null",
)
"""Texts that are NULL unless `keep_default_na` is false."""
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "0": "\0"}


def read_csv_settings(value: Value) -> dict[str, Any]:
    """Read `(setting = value, …)` to the fields of a seed.

    Raises:
        ProjectError: A setting is unknown, or its value is none that it can have.
    """
    fields: dict[str, Any] = {}
    for key, item in value.pairs():
        name = "delimiter" if key == "sep" else key
        read = _READERS.get(name)
        if read is None:
            raise item.error(f"unknown CSV setting '{key}'", suggest(key, _READERS, "CSV settings"))
        fields |= read(item)
    return fields


def _character(item: Value) -> str:
    text = _unescaped(item)
    if len(text) != 1 or text in "\r\n":
        raise item.error(
            f"the CSV setting '{item.name}' has to be one character, not {text!r}",
            "write it in quotes, a tab as '\\t'",
        )
    return text


def _delimiter(item: Value) -> dict[str, Any]:
    return {"delimiter": _character(item)}


def _line_end(item: Value) -> dict[str, Any]:
    text = _unescaped(item)
    if text in ("\n", "\r\n", "\r"):
        return {}  # All three are read as what they are anyway.
    if len(text) != 1:
        raise item.error(
            f"the CSV setting '{item.name}' has to be one character, not {text!r}",
            "leave it out where lines end as usual",
        )
    return {"lineterminator": text}


def _encoding(item: Value) -> dict[str, Any]:
    name = item.text()
    try:
        found = codecs.lookup(name)
        "a,1".encode(found.name)
    except (LookupError, ValueError):
        raise item.error(f"there is no encoding '{name}'", "write 'utf-8' or 'latin-1'") from None
    return {} if found.name == "utf-8" else {"encoding": found.name}


def _flag(name: str) -> Callable[[Value], dict[str, Any]]:
    return lambda item: {name: item.boolean()}


def _one(name: str) -> Callable[[Value], dict[str, Any]]:
    return lambda item: {name: _character(item)}


def _na_values(item: Value) -> dict[str, Any]:
    """Read a list of texts, or one by column."""
    parts = item.items()
    if any(token.text == "=" for part in parts for token in part.tokens):
        by_column = tuple((name, _texts(one)) for name, one in item.pairs())
        return {"column_null_values": tuple(sorted(by_column))}
    return {"null_values": _texts(item)}


def _texts(item: Value) -> tuple[str, ...]:
    parts = [part for part in item.items() if part.raw.lower() != "null"]
    return tuple(_unescaped(part) if part.tokens else "" for part in parts)


def _keep(item: Value) -> dict[str, Any]:
    return {"missing": "default" if item.boolean() else "given"}


def _unescaped(item: Value) -> str:
    """Read a text in which `\\t`, `\\n`, `\\r` and `\\0` are what they are everywhere."""
    written = item.raw
    if len(item.tokens) != 1 or item.tokens[0].kind != "string" or written[0] in "rR":
        return item.text()
    mark, body = written[0], written[1:-1]
    body = body.replace(mark * 2, mark)
    if body == "\\":
        return body
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), body, flags=re.DOTALL)


_READERS: dict[str, Callable[[Value], dict[str, Any]]] = {
    "delimiter": _delimiter,
    "quotechar": _one("quotechar"),
    "doublequote": _flag("doublequote"),
    "escapechar": _one("escapechar"),
    "skipinitialspace": _flag("skipinitialspace"),
    "lineterminator": _line_end,
    "encoding": _encoding,
    "na_values": _na_values,
    "keep_default_na": _keep,
}
