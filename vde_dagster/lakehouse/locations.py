"""Where files lie: the base locations of tables and views, and the names of metadata files."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

from vde_dagster.planning.table import TableRef

_PLAIN_FILE_NUMBER = re.compile(r"(\d+)-[^/]*$")


def warehouse_uri(warehouse: str) -> str:
    """Return a warehouse's URI: one spelling for a folder, whoever asks."""
    if "://" in warehouse or warehouse.startswith("file:"):
        return warehouse.rstrip("/")
    return f"file://{Path(warehouse).resolve()}"


def table_location(warehouse: str, ref: TableRef, table_id: str) -> str:
    """Return the base location of a physical table; its last part ends with the unique id."""
    return f"{warehouse.rstrip('/')}/{ref.namespace}/{ref.name}-{table_id}"


def is_tables_own(location: str, table_id: str) -> bool:
    """Say whether all that lies below a base location is one table's: its name has the id."""
    return table_id in location.rstrip("/").rsplit("/", 1)[-1]


def view_location(warehouse: str, ref: TableRef, unique: str) -> str:
    """Return a base location for a view that was never used and never will be.

    Args:
        warehouse: Base location of tables and views.
        ref: The view's place in the catalog, for people who look at the storage.
        unique: An id that is never used again.
    """
    return f"{warehouse}/{_slug(ref.namespace)}/{_slug(ref.name)}-{unique}"


def is_views_own(location: str, ref: TableRef) -> bool:
    """Say whether a base location may be that of the view of a name: both folders say it."""
    namespace, _, name = location.rstrip("/").rpartition("/")
    of_name = name.startswith(f"{_slug(ref.name)}-")
    return of_name and namespace.rpartition("/")[2] == _slug(ref.namespace)


def next_file(base: str, current: str | None) -> str:
    """Name the next metadata file of a table: its base location, and a name after the current."""
    return f"{base}/metadata/{next_name(current)}"


def next_name(current: str | None) -> str:
    """Name the next metadata file; Iceberg counts up the number at its start."""
    match = _PLAIN_FILE_NUMBER.search(current or "")
    number = int(match.group(1)) + 1 if match else 0
    return f"{number:05d}-{uuid.uuid4()}.metadata.json"


def _slug(name: str) -> str:
    """Make a short, plain file name of any name; it is for people, the unique id tells apart."""
    return re.sub(r"[^a-z0-9_]+", "-", name.lower())[:48].strip("-") or "x"
