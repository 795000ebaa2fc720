"""Files of the metadata that tables are answered with, for clients that read those from storage.

A client that follows the specification takes the metadata of the answer. Some take its location
only, such as ClickHouse. A file is written once for each table and publication that is asked for,
beside the physical table's own, and goes with the table's folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vde_dagster.errors import DamagedFileError, ExecutionError
from vde_dagster.serve.errors import ServeError

if TYPE_CHECKING:
    from vde_dagster.lakehouse.files import MetadataFiles


def ensure_written(files: MetadataFiles, location: str, content: bytes) -> None:
    """Make sure that there is a file of metadata.

    Args:
        files: The warehouse's files.
        location: Where; one location has one content but for what clients do not look at.
        content: The metadata.

    Raises:
        ServeError: It cannot be written, or something else is there.
    """
    size = files.size(location)
    if size is None:
        try:
            files.write_all([(location, content)], "write_served_metadata")
        except ExecutionError as error:
            if not files.exists(location):  # Somebody else was faster, or nobody can.
                raise ServeError(503, str(error)) from error
        return
    try:
        files.read_json(location)
    except DamagedFileError as error:
        raise ServeError(
            503, f"{location} was not written to its end: remove it and try again"
        ) from error
