"""Removal of the settings' secrets from metadata and descriptions of Dagster's events."""

from __future__ import annotations

from typing import TypeVar

import dagster as dg
from dagster_shared import record

from vde_dagster.base.secrets import mask, masked

Event = TypeVar("Event", bound=object)


def without_secrets(event: Event) -> Event:
    """Return an event with secrets masked; the same object if there are none."""
    metadata = getattr(event, "metadata", None) or {}
    changed = {name: shown for name, one in metadata.items() if (shown := _masked(one)) != one}
    description = getattr(event, "description", None)
    if not changed and (description is None or mask(description) == description):
        return event
    values: dict[str, object] = {"metadata": {**metadata, **changed}}
    if description is not None:
        values["description"] = mask(description)
    if record.is_record(event):  # type: ignore[attr-defined]
        return record.replace(event, **values)
    made: Event = event._replace(**values)  # type: ignore[attr-defined]
    return made


def _masked(value: object) -> object:
    if isinstance(value, dg.MarkdownMetadataValue):
        return dg.MetadataValue.md(mask(value.md_str or ""))
    if isinstance(value, dg.TextMetadataValue):
        return dg.MetadataValue.text(mask(value.text or ""))
    if isinstance(value, dg.UrlMetadataValue):
        return dg.MetadataValue.url(mask(value.url or ""))
    if isinstance(value, dg.JsonMetadataValue):
        return dg.MetadataValue.json(masked(value.data))
    return mask(value) if isinstance(value, str) else value
