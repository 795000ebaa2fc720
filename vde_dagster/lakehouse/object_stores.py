"""Settings for object stores: PyIceberg's names, and what Iceberg's Java library calls the same.

Sources: https://py.iceberg.apache.org/configuration/#fileio and
https://iceberg.apache.org/docs/latest/aws/#s3-fileio.
"""

from __future__ import annotations

from collections.abc import Mapping

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
"""Those of PyIceberg's settings that Iceberg's S3FileIO has; the general ones first, as the
special ones win in PyIceberg."""

_S3_FILE_IO = "org.apache.iceberg.aws.s3.S3FileIO"


def for_spark(io: Mapping[str, str], warehouse: str) -> dict[str, str]:
    """Return the properties of a Spark catalog that say what PyIceberg's settings say.

    Args:
        io: PyIceberg's settings; what Iceberg's S3FileIO has no equivalent of is left out.
        warehouse: Where tables lie; Hadoop's own file systems (`s3a://`, `file:`) take none.
    """
    if not warehouse.startswith("s3://"):
        return {}
    found = {theirs: io[ours] for ours, theirs in _IN_SPARK.items() if ours in io}
    if not found:
        return {}
    if "s3.endpoint" in found:
        # PyIceberg puts the bucket into the path where an endpoint is named, unless told not to.
        virtual = io.get("s3.force-virtual-addressing", "false").lower() in ("true", "1", "yes")
        found["s3.path-style-access"] = "false" if virtual else "true"
    return {"io-impl": _S3_FILE_IO, **found}


def for_clients(io: Mapping[str, str], warehouse: str) -> dict[str, str]:
    """Return what any client is told of an object store: the settings, also by Java's names.

    Nothing is said that the settings do not say.

    Args:
        io: PyIceberg's settings, or other properties, which are handed on as they are.
        warehouse: Where tables lie.
    """
    found = {key: value for key, value in for_spark(io, warehouse).items() if key != "io-impl"}
    return {**found, **io}
