"""Removal of the settings' secrets from metadata and descriptions of Dagster's events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import dagster as dg
from dagster_shared import record
from pydantic import BaseModel

from vde_dagster.base.secrets import mask

Event = TypeVar("Event", bound=object)


def without_secrets(event: Event) -> Event:
    """Return an event with masked secrets, or the same event if it contains no secret.

    The keys of assets and partitions and the names of checks stay unchanged.
    """
    if isinstance(event, dg.Output):
        shown = masked_metadata(event.metadata)
        return event if shown == event.metadata else cast("Event", event.with_metadata(shown))
    values: dict[str, object] = {}
    metadata = getattr(event, "metadata", None) or {}
    if (shown := masked_metadata(metadata)) != metadata:
        values["metadata"] = shown
    description = getattr(event, "description", None)
    if description is not None and mask(description) != description:
        values["description"] = mask(description)
    checks = getattr(event, "check_results", None) or ()
    if any(without_secrets(one) is not one for one in checks):
        values["check_results"] = [without_secrets(one) for one in checks]
    return cast("Event", _replaced(event, values)) if values else event


def masked_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _masked(value) for name, value in metadata.items()}


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dg.AssetKey):
        return value
    if isinstance(value, Mapping):
        return {key: _masked(one) for key, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        # Dagster's values are records over tuples, or named tuples.
        own = {name: getattr(value, name) for name in value._fields}
        changed = {name: made for name, one in own.items() if (made := _masked(one)) != one}
        return _replaced(value, changed) if changed else value
    if isinstance(value, BaseModel):  # References to code.
        own = {name: getattr(value, name) for name in type(value).model_fields}
        return value.model_copy(update={name: _masked(one) for name, one in own.items()})
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(_masked(one) for one in value)
    return value


def _replaced(value: Any, changed: dict[str, object]) -> Any:
    if record.is_record(value):  # type: ignore[attr-defined]
        return record.replace(value, **changed)
    return value._replace(**changed)
