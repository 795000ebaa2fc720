"""Kind SEED: rows of a CSV file, and the settings for reading it.

Names and meaning of the settings are as in pandas:
https://pandas.pydata.org/docs/reference/api/pandas.read_csv.html
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from vde_dagster.base.texts import suggest
from vde_dagster.project.kinds.base import Kind, Property

if TYPE_CHECKING:
    from vde_dagster.project.property_value import Value


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
"""Texts that represent NULL unless `keep_default_na` is false."""
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "0": "\0"}
_LATER_SETTINGS = (
    *("quotechar", "doublequote", "escapechar", "skipinitialspace", "lineterminator"),
    *("encoding", "column_null_values"),
)


def read_csv_settings(value: Value) -> dict[str, Any]:
    """Read `csv_settings (delimiter = ';', …)` as values of fields of `Seed`."""
    read_fields: dict[str, Any] = {}
    for key, item in value.pairs():
        name = "delimiter" if key == "sep" else key
        read = _READERS.get(name)
        if read is None:
            raise item.error(f"unknown CSV setting '{key}'", suggest(key, _READERS, "CSV settings"))
        read_fields |= read(item)
    return read_fields


def _read_character(item: Value) -> str:
    text = _unescape(item)
    if len(text) != 1 or text in "\r\n":
        raise item.error(
            f"the CSV setting '{item.name}' must be one character within a line, not {text!r}",
            "write it in quotes, a tab as '\\t'",
        )
    return text


def _read_line_end(item: Value) -> dict[str, Any]:
    text = _unescape(item)
    if text in ("\n", "\r\n", "\r"):
        return {}  # All three are recognized anyway.
    if len(text) != 1:
        raise item.error(
            f"the CSV setting '{item.name}' must be one character, not {text!r}",
            "remove it if lines end as usual",
        )
    return {"lineterminator": text}


def _read_encoding(item: Value) -> dict[str, Any]:
    name = item.text()
    try:
        found = codecs.lookup(name)
        "a,1".encode(found.name)
    except (LookupError, ValueError):
        raise item.error(
            f"unknown encoding '{name}'", "write for example 'utf-8' or 'latin-1'"
        ) from None
    return {} if found.name == "utf-8" else {"encoding": found.name}


def _read_na_values(item: Value) -> dict[str, Any]:
    parts = item.items()
    if any(token.text == "=" for part in parts for token in part.tokens):
        by_column = tuple((name, _read_texts(one)) for name, one in item.pairs())
        return {"column_null_values": tuple(sorted(by_column))}
    return {"null_values": _read_texts(item)}


def _read_texts(item: Value) -> tuple[str, ...]:
    parts = [part for part in item.items() if part.raw.lower() != "null"]
    return tuple(_unescape(part) if part.tokens else "" for part in parts)


def _unescape(item: Value) -> str:
    written = item.raw
    if len(item.tokens) != 1 or item.tokens[0].kind != "string" or written[0] in "rR":
        return item.text()
    mark, body = written[0], written[1:-1]
    body = body.replace(mark * 2, mark)
    if body == "\\":
        return body
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), body, flags=re.DOTALL)


_READERS: dict[str, Callable[[Value], dict[str, Any]]] = {
    "delimiter": lambda item: {"delimiter": _read_character(item)},
    "quotechar": lambda item: {"quotechar": _read_character(item)},
    "doublequote": lambda item: {"doublequote": item.boolean()},
    "escapechar": lambda item: {"escapechar": _read_character(item)},
    "skipinitialspace": lambda item: {"skipinitialspace": item.boolean()},
    "lineterminator": _read_line_end,
    "encoding": _read_encoding,
    "na_values": _read_na_values,
    "keep_default_na": lambda item: {"missing": "default" if item.boolean() else "given"},
}


@dataclass(frozen=True, slots=True)
class Seed(Kind):
    """Rows from a CSV file of the project, loaded once per version.

    Args:
        path: CSV file, relative to the project's root, with forward slashes.
        content_hash: SHA-256 hex of the file's bytes when the project was loaded.
        rows_hash: Hash of the number of rows.
        column_hashes: Hash of each column's values, in the file's order.
        null_values: Texts read as NULL in every column, in addition to `missing`.
        escapechar: Character that escapes the next one; empty for none.
        lineterminator: Character that ends a row; empty for line ends.
        encoding: Python's name of the file's encoding; empty for UTF-8.
        missing: `default` if pandas' default texts, such as `NA`, also mean NULL; `given` if only
            `null_values` and `column_null_values` do. Empty means `default`, in seeds that were
            stored before this field was added.
    """

    path: str
    content_hash: str = ""
    row_count: int = 0
    rows_hash: str = ""
    column_hashes: tuple[tuple[str, str], ...] = ()
    delimiter: str = ","
    null_values: tuple[str, ...] = ()
    quotechar: str = Kind.later('"')
    doublequote: bool = Kind.later(True)
    escapechar: str = Kind.later("")
    skipinitialspace: bool = Kind.later(False)
    lineterminator: str = Kind.later("")
    encoding: str = Kind.later("")
    column_null_values: tuple[tuple[str, tuple[str, ...]], ...] = Kind.later(())
    missing: Literal["", "default", "given"] = Kind.later("", hashed=False)
    name: Literal["SEED"] = "SEED"

    summary = "from a CSV file, once per version"
    properties = (
        Property("path", lambda value: value.text(), {"type": "string"}, required=True),
        Property("csv_settings", read_csv_settings, {"type": "object"}),
    )
    ignored = frozenset({"batch_size"})
    has_query = False
    allows_python = False

    @classmethod
    def from_properties(cls, given: Mapping[str, Any]) -> Kind:
        """Create the kind, with its `path` as written in the file."""
        return cls(path=given["path"], **{"missing": "default", **given.get("csv_settings", {})})

    @property
    def later_settings(self) -> tuple[str, ...]:
        """Texts for hashing, such as `quotechar="'"`.

        The result has the settings in `_LATER_SETTINGS` that differ from their defaults, and the
        text `given` if `missing` is `given`.
        """
        found = [
            f"{item.name}={getattr(self, item.name)!r}"
            for item in fields(self)
            if item.name in _LATER_SETTINGS and getattr(self, item.name) != item.default
        ]
        return (*found, *(["given"] if self.missing == "given" else []))

    def null_values_in(self, column: str) -> tuple[str, ...]:
        """Return the texts that mean NULL in one column."""
        own = {name.lower(): texts for name, texts in self.column_null_values}
        default = () if self.missing == "given" else MISSING
        return (*default, *self.null_values, *own.get(column.lower(), ()))

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,)
