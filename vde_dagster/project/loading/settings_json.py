"""Settings as JSON, for the cache."""

from __future__ import annotations

import dataclasses
from datetime import date
from pathlib import Path
from typing import Any

from vde_dagster.project.settings import (
    DagsterSettings,
    LinterSettings,
    NessieSettings,
    RestSettings,
    Settings,
    SparkSettings,
)
from vde_dagster.sql.layout.options import LayoutOptions


def settings_to_json(settings: Settings) -> dict[str, Any]:
    """Write settings without their root."""
    values = dataclasses.asdict(settings)
    del values["root"]
    values["start"] = settings.start.isoformat() if settings.start else None
    return values


def settings_from_json(root: Path, values: dict[str, Any]) -> Settings:
    """Read what `settings_to_json` wrote."""
    given = dict(values)
    spark, dagster = dict(given.pop("spark")), dict(given.pop("dagster"))
    linter: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in given.pop("linter").items()
    }
    layout = LayoutOptions(**given.pop("format"))
    nessie, rest = dict(given.pop("nessie")), dict(given.pop("rest"))
    spark["packages"] = tuple(spark["packages"])
    for name, value in given.items():
        if isinstance(value, list):
            given[name] = tuple(value)
    given["start"] = date.fromisoformat(given["start"]) if given["start"] else None
    return Settings(
        root=root,
        spark=SparkSettings(**spark),
        dagster=DagsterSettings(**dagster),
        linter=LinterSettings(**linter),
        nessie=NessieSettings(**nessie),
        rest=RestSettings(**rest),
        format=layout,
        **given,
    )
