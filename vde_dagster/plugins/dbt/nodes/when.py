"""Schedule of a dbt node, from its `meta.vde`, its batch size and begin, and the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vde_dagster.api.values import Settings, parse_instant
from vde_dagster.plugins.dbt.nodes.incremental import BATCH_CRONS, Filling

_KEYS = ("cron", "cron_tz", "start", "skip_unchanged", "refresh")
_EXPORTED = frozenset({"kind", "version", "snapshot", "owner"})
"""Keys of `meta.vde` that `vde describe dbt` writes; they are ignored here."""


def read_schedule(meta: Mapping[str, Any], filling: Filling, settings: Settings) -> dict[str, Any]:
    """Return the schedule of a node, as fields of `Model`.

    Args:
        meta: The node's whole `meta`; its key `vde` is read.

    Raises:
        ValueError: `meta.vde` has an unknown key, or a value that cannot be read.
    """
    # A plan fills incremental models and snapshots up to the present. The last day or batch is
    # incomplete then, and the next plan fills it again.
    given = _read_meta(meta)
    zone, often = str(given.get("cron_tz") or ""), BATCH_CRONS.get(filling.batch, "")
    try:
        cron, cron_tz = settings.schedule(str(given.get("cron") or ""), zone, at_least=often)
    except LookupError as error:
        raise ValueError(f"meta.vde.cron_tz '{zone}' is not a time zone: {error.args[0]}") from None
    times: dict[str, Any] = {"cron": cron, "cron_tz": cron_tz, "start": filling.start}
    if "start" in given:
        times["start"] = parse_instant(str(given["start"]))
    if "skip_unchanged" in given:
        if not isinstance(given["skip_unchanged"], bool):
            raise ValueError("meta.vde.skip_unchanged must be true or false")
        times["skip_unchanged"] = given["skip_unchanged"]
    if filling.kind.by_intervals:
        unit = filling.batch or "day"
        times |= {"interval_unit": unit, "allow_partials": True, "until_now": True}
    return times


def _read_meta(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    given = meta.get("vde") or {}
    if not isinstance(given, Mapping):
        raise ValueError("meta.vde must have keys and values, such as {cron: '@hourly'}")
    unknown = sorted(set(given) - _EXPORTED.union(_KEYS))
    if unknown:
        raise ValueError(f"meta.vde has no key '{unknown[0]}' (known: {', '.join(_KEYS)})")
    return given
