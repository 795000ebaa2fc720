"""Semantic versions: hashes of queries, and of tables that no query defines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from vde_dagster.base.hashing import digest_tagged, digest_values, hex_or_text_bytes

CANONICALISER_VERSION = 18
"""Increase this number if a query gets another hash or lineage, to hash stored queries again."""

OTHER_COLUMNS = "*"
"""Placeholder for unknown columns among a table's types."""
UNKNOWN_STAR = "its star may have more columns"
"""End of `SemanticVersion.opaque` for a query with unknown output columns."""
UNKNOWN_TABLE = re.compile(r"the columns of (.+) are not known")
"""Pattern of the reason in `opaque` when a star reads a table with unknown columns."""


def canonicaliser() -> str:
    # Both affect the hashes. A snapshot stores this value, and its definition is hashed again if
    # the value differs later.
    return f"{CANONICALISER_VERSION}/sqlglot {_sqlglot_version()}"


@dataclass(frozen=True, slots=True)
class SemanticVersion:
    """Hashes that identify a query's result: one for the rows, and one per output column.

    If two models have equal `rows`, their columns with equal hashes have the same values in the
    same rows, on any data. A row that occurs several times occurs equally often in both results.

    Args:
        columns: Digest of each output's expression by lower-case name, in SELECT order.
        opaque: Why the query could not be analyzed and is versioned as a whole, or None.
        unique_keys: Sets of output columns with unique values (NULLs compared as equal), known from
            the query itself or verified by a blocking audit.
    """

    rows: str
    columns: dict[str, str]
    opaque: str | None = None
    unique_keys: tuple[frozenset[str], ...] = field(default=(), compare=False)

    @property
    def unknown_star(self) -> str | None:
        """Why the columns of the query's star are not known, or None."""
        why, _, end = (self.opaque or "").rpartition("; ")
        return why if end == UNKNOWN_STAR else None


def leaf_version(name: str, columns: Mapping[str, str]) -> SemanticVersion:
    """Return the version of an external table, a hash of its name, columns and types."""
    table = name.lower()
    return SemanticVersion(
        rows=leaf_rows(table).hex(),
        columns={c.lower(): leaf_column(table, c.lower(), t).hex() for c, t in columns.items()},
    )


def leaf_rows(table: str) -> bytes:
    return digest_values("external rows", table)


def leaf_column(table: str, column: str, type_text: str) -> bytes:
    text = " ".join(type_text.split())
    # Names of a struct's fields are data, with their case.
    return digest_values("external column", table, column, text if "<" in text else text.upper())


def opaque_version(
    canonical_text: str, parents: Mapping[str, SemanticVersion], columns: Iterable[str], why: str
) -> SemanticVersion:
    """Return the version of a query that is compared by its text.

    `parents` are the versions of its tables, by their names in the text.
    """
    parts: list[bytes | str | int | None] = [canonical_text]
    for name, parent in sorted((n.lower(), p) for n, p in parents.items()):
        parts += [name, hex_or_text_bytes(parent.rows), len(parent.columns)]
        for column, version in sorted(parent.columns.items()):
            parts += [column, hex_or_text_bytes(version)]
    whole = digest_tagged("opaque", parts)
    return SemanticVersion(
        rows=whole.hex(),
        columns={
            name: digest_values("opaque column", whole, name).hex()
            for name in map(str.lower, columns)
        },
        opaque=why,
    )


_WRITTEN = re.compile(r"""^__version__\b[^'"\n]*['"]([^'"]+)['"]""", re.MULTILINE)


def _sqlglot_version() -> str:
    spec = find_spec("sqlglot")
    written = Path(spec.origin or "").parent / "_version.py" if spec is not None else None
    if written is not None and written.is_file():
        found = _WRITTEN.search(written.read_text("utf-8"))
        if found is not None:
            return found[1]
    # This module imports e-mail parsers, which take a tenth of the time of a short command.
    from importlib.metadata import version

    return version("sqlglot")
