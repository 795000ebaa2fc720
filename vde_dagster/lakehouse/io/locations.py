"""Locations of files, and settings of object stores by PyIceberg's and Iceberg's names.

Sources: https://py.iceberg.apache.org/configuration/#fileio and
https://iceberg.apache.org/docs/latest/aws/#s3-fileio.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from pathlib import Path

from vde_dagster.errors import ExecutionError
from vde_dagster.planning.tables.table import TableRef

_PLAIN_FILE_NUMBER = re.compile(r"(\d+)-[^/]*$")


def warehouse_uri(warehouse: str) -> str:
    """Return the URI of a warehouse. All paths of one local folder have the same URI."""
    if "://" in warehouse or warehouse.startswith("file:"):
        return warehouse.rstrip("/")
    return f"file://{Path(warehouse).resolve()}"


def local_path(location: str) -> str | None:
    """Return the path of a local location (`file:/a`, `file:///a` or `/a`, not percent-encoded).

    Return None for a location in an object store.
    """
    if location.startswith("file:"):
        return "/" + location[len("file:") :].lstrip("/")
    return None if "://" in location else location


def table_location(warehouse: str, ref: TableRef, table_id: str) -> str:
    """Build the location of a new physical table's folder, named after the table and its id."""
    # Characters that storages do not treat as part of a name are left out.
    return f"{warehouse.rstrip('/')}/{_plain(ref.namespace)}/{_plain(ref.name)}-{table_id}"


def _plain(name: str) -> str:
    found = _NOT_OF_NAMES.sub("-", name).strip(". ")
    return found if found and ".." not in found else _slug(name)


_NOT_OF_NAMES = re.compile(r"[\x00-\x1f\x7f/\\?#%:*|<>\"]")


def require_inside(location: str) -> str:
    """Return a location, or raise ExecutionError if it has a part `..` or a NUL."""
    if "\0" in location or ".." in re.split(r"[/\\]", location):
        raise ExecutionError(
            f"{location!r} contains '..' or a NUL character: nothing was written",
            hint="correct the setting warehouse, or the location in the table's metadata",
        )
    return location


def is_tables_own(location: str, table_id: str) -> bool:
    """Check whether the name of a table's folder contains the table's id."""
    return table_id in location.rstrip("/").rsplit("/", 1)[-1]


def view_location(warehouse: str, ref: TableRef, unique: str) -> str:
    return f"{warehouse}/{_slug(ref.namespace)}/{_slug(ref.name)}-{unique}"


def is_views_own(location: str, ref: TableRef) -> bool:
    """Check whether a view's folder is named after the view and its namespace."""
    namespace, _, name = location.rstrip("/").rpartition("/")
    of_name = name.startswith(f"{_slug(ref.name)}-")
    return of_name and namespace.rpartition("/")[2] == _slug(ref.namespace)


def next_file(base: str, current: str | None) -> str:
    return f"{base}/metadata/{next_name(current)}"


def next_name(current: str | None) -> str:
    """Build the next metadata file's name: `'…/00002-….json'` -> `'00003-<uuid>.metadata.json'`."""
    match = _PLAIN_FILE_NUMBER.search(current or "")
    number = int(match.group(1)) + 1 if match else 0
    return f"{number:05d}-{uuid.uuid4()}.metadata.json"


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "-", name.lower())[:48].strip("-") or "x"


_IN_SPARK = {
    "client.access-key-id": "s3.access-key-id",
    "client.secret-access-key": "s3.secret-access-key",
    "client.session-token": "s3.session-token",
    "client.region": "client.region",
    "s3.access-key-id": "s3.access-key-id",
    "s3.secret-access-key": "s3.secret-access-key",
    "s3.session-token": "s3.session-token",
    "s3.region": "client.region",
    "s3.endpoint": "s3.endpoint",
}
"""Names of settings in Iceberg's S3FileIO, by PyIceberg's names. A later entry overrides an earlier
one, because `s3.…` overrides `client.…` in PyIceberg."""

_S3_FILE_IO = "org.apache.iceberg.aws.s3.S3FileIO"


def for_spark(io: Mapping[str, str], warehouse: str) -> dict[str, str]:
    """Convert PyIceberg's settings to properties of a Spark catalog.

    Settings without an equivalent in Iceberg's S3FileIO are left out.
    """
    if not warehouse.startswith("s3://"):
        return {}
    found = {theirs: io[ours] for ours, theirs in _IN_SPARK.items() if ours in io}
    if not found:
        return {}
    if "s3.endpoint" in found:
        # With an endpoint PyIceberg puts the bucket into the path, unless configured otherwise.
        virtual = io.get("s3.force-virtual-addressing", "false").lower() in ("true", "1", "yes")
        found["s3.path-style-access"] = "false" if virtual else "true"
    return {"io-impl": _S3_FILE_IO, **found}


def for_clients(io: Mapping[str, str], warehouse: str) -> dict[str, str]:
    """Return an object store's settings by PyIceberg's names and by Iceberg's Java names."""
    found = {key: value for key, value in for_spark(io, warehouse).items() if key != "io-impl"}
    return {**found, **io}
