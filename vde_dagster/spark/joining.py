"""Joining a Spark session that somebody else configured: only where its catalog is ours."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vde_dagster.errors import UsageError
from vde_dagster.spark.settings import SessionSettings, session_config

_SECRET = "password|secret|token|credential|key"
_SECRET_NAME = re.compile(_SECRET, re.IGNORECASE)
_SECRET_PART = re.compile(rf"((?:{_SECRET})[^=&;]*=)[^&;]*", re.IGNORECASE)


def check_catalog(theirs: Mapping[str, str], settings: SessionSettings) -> None:
    """Check that a session means the same tables by the catalog's name as the project does.

    Args:
        theirs: The session's whole configuration.
        settings: The project's.

    Raises:
        UsageError: It does not; names every setting that differs, secrets without their values.
    """
    prefix = f"spark.sql.catalog.{settings.catalog}"
    ours = session_config(settings)
    keys = sorted(key for key in {*ours, *theirs} if key == prefix or key.startswith(prefix + "."))
    differing = [key for key in keys if ours.get(key) != theirs.get(key)]
    if not differing:
        return
    parts = [
        f"{key} is {_shown(key, theirs.get(key))}, the project's is {_shown(key, ours.get(key))}"
        for key in differing
    ]
    raise UsageError(
        f"the Spark session to join has another catalog '{settings.catalog}' than the project: "
        + "; ".join(parts),
        hint="start it with vde_dagster.orchestration.spark_config(project_root), or give no "
        "session: the project has one",
    )


def _shown(key: str, value: str | None) -> str:
    if value is None:
        return "not set"
    if _SECRET_NAME.search(key.rpartition(".")[2]):
        return "another one"
    without_secrets = _SECRET_PART.sub(r"\1…", value)
    return f"'{without_secrets}'"
