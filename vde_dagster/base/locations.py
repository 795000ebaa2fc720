"""Locations of folders: one spelling for the same place."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

_SAME_STORE = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
"""Hadoop schemes that are other names of an object store."""


def normal_location(place: str) -> str:
    """Return a folder's URI in one canonical spelling, without user name and password.

    >>> normal_location("s3a://Shop/a//b/"), normal_location("file:/data/../w")
    ('s3://shop/a/b', 'file:///w')
    """
    if "://" not in place and not place.startswith("file:"):
        return f"file://{Path(place).resolve()}"
    if place.startswith("file:"):
        return f"file://{Path('/' + place.removeprefix('file:').lstrip('/')).resolve()}"
    parts = urlsplit(place)
    scheme = parts.scheme.lower()
    # A login precedes the @, unless that separates a container from its account.
    is_azure = scheme.startswith(("abfs", "wasb"))
    host = (parts.netloc if is_azure else parts.netloc.rpartition("@")[2]).lower()
    path = re.sub(r"/{2,}", "/", parts.path).rstrip("/")
    return f"{store_scheme(scheme)}://{host}{path}"


def store_scheme(scheme: str) -> str:
    """Return the one scheme of an object store that has several.

    >>> store_scheme("S3A"), store_scheme("gs")
    ('s3', 'gs')
    """
    lowered = scheme.lower()
    return _SAME_STORE.get(lowered, lowered)
