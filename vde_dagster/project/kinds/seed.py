"""SEED: rows of a CSV file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from vde_dagster.base.suggestions import suggest
from vde_dagster.project.kinds.base import Kind, Property

if TYPE_CHECKING:
    from vde_dagster.project.reading.header import Value


def _csv_settings(value: Value) -> tuple[str, tuple[str, ...]]:
    """Read the delimiter and the texts that are NULL."""
    delimiter, null_values = ",", tuple[str, ...]()
    for key, item in value.pairs():
        if key in ("delimiter", "sep"):
            delimiter = item.text().replace("\\t", "\t")
            if len(delimiter) != 1:
                raise item.error("the delimiter has to be one character")
        elif key == "na_values":
            null_values = item.texts()
        elif key in _DEFAULTS:
            if item.text().lower() not in _DEFAULTS[key]:
                raise item.error(f"CSV setting '{key}' can only be {_DEFAULTS[key][0]!r}")
        else:
            raise item.error(
                f"unknown CSV setting '{key}'",
                suggest(key, ("delimiter", "na_values", "quotechar", "encoding")),
            )
    return delimiter, null_values


_DEFAULTS = {
    "keep_default_na": ("false", "true"),
    "encoding": ("utf-8", "utf8"),
    "quotechar": ('"',),
    "doublequote": ("true",),
    "lineterminator": ("\n", "\\n", "n"),
}
"""Settings of SQLMesh that may only say what is so anyway."""


@dataclass(frozen=True, slots=True)
class Seed(Kind):
    """Rows from a CSV file of the project, loaded once per version.

    Args:
        path: The CSV file, relative to the project's root, with forward slashes.
        content_hash: SHA-256 hex of the file's bytes when the project was loaded.
        row_count: Rows in the file.
        rows_hash: Hash of the number and order of rows (see semantics).
        column_hashes: Hash of each column's values, in the file's order.
        delimiter: The field separator.
        null_values: Texts read as NULL beside the empty one.
    """

    path: str
    content_hash: str = ""
    row_count: int = 0
    rows_hash: str = ""
    column_hashes: tuple[tuple[str, str], ...] = ()
    delimiter: str = ","
    null_values: tuple[str, ...] = ()
    name: Literal["SEED"] = "SEED"

    summary = "from a CSV file, once per version"
    properties = (
        Property(
            "path",
            lambda value: value.text(),
            {"type": "string"},
            required=True,
            shown="`path` (relative to the model's file)",
        ),
        Property(
            "csv_settings",
            _csv_settings,
            {"type": "object"},
            shown="`csv_settings (delimiter, na_values …)`",
        ),
    )
    ignored = frozenset({"batch_size"})
    has_query = False
    allows_python = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Kind:
        """Make the kind; its path is as written until its file is read."""
        delimiter, null_values = given.get("csv_settings", (",", ()))
        return cls(path=given["path"], delimiter=delimiter, null_values=null_values)

    @property
    def files(self) -> tuple[str, ...]:
        """The CSV file."""
        return (self.path,)
