"""SEED: rows of a CSV file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from vde_dagster.project.kinds.base import Kind, Property, later
from vde_dagster.project.kinds.csv_settings import MISSING, read_csv_settings


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
        null_values: Texts read as NULL in every column, beside those of `missing`.
        quotechar: Around values with other signs in them.
        doublequote: Whether it stands for itself where it is doubled.
        escapechar: Takes the meaning of the next character away; empty for none.
        skipinitialspace: Whether blanks behind a delimiter are left out.
        lineterminator: Ends a row; empty for a line's end.
        encoding: Python's name of the file's encoding; empty for UTF-8.
        column_null_values: Texts read as NULL, by column.
        missing: Which texts are NULL beside those: `default`, pandas' list; `given`, none; empty
            where a field is without quotes and empty, as seeds were read before there was a choice.
    """

    path: str
    content_hash: str = ""
    row_count: int = 0
    rows_hash: str = ""
    column_hashes: tuple[tuple[str, str], ...] = ()
    delimiter: str = ","
    null_values: tuple[str, ...] = ()
    quotechar: str = later('"')
    doublequote: bool = later(True)
    escapechar: str = later("")
    skipinitialspace: bool = later(False)
    lineterminator: str = later("")
    encoding: str = later("")
    column_null_values: tuple[tuple[str, tuple[str, ...]], ...] = later(())
    missing: Literal["", "default", "given"] = later("", hashed=False)
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
            read_csv_settings,
            {"type": "object"},
            shown="`csv_settings (delimiter = ';', na_values = ('?'), …)`",
        ),
    )
    ignored = frozenset({"batch_size"})
    has_query = False
    allows_python = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Kind:
        """Make the kind; its path is as written until its file is read."""
        return cls(path=given["path"], **{"missing": "default", **given.get("csv_settings", {})})

    @property
    def later_settings(self) -> tuple[str, ...]:
        """How the file is read, as far as it is not read as usual."""
        usual = Seed("")
        names = ("quotechar", "doublequote", "escapechar", "skipinitialspace", "lineterminator")
        found = [
            f"{name}={getattr(self, name)!r}"
            for name in (*names, "encoding", "column_null_values")
            if getattr(self, name) != getattr(usual, name)
        ]
        return (*found, *(["given"] if self.missing == "given" else []))

    @property
    def default_null_values(self) -> tuple[str, ...]:
        """Texts that are NULL in every column that names no others."""
        return (*(MISSING if self.missing == "default" else ()), *self.null_values)

    def null_values_of(self, column: str) -> tuple[str, ...]:
        """Return the texts that are NULL in a column."""
        own = {name.lower(): texts for name, texts in self.column_null_values}
        return (*self.default_null_values, *own.get(column.lower(), ()))

    @property
    def files(self) -> tuple[str, ...]:
        """The CSV file."""
        return (self.path,)
