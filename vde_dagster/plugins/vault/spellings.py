"""HUB, SATELLITE and others: kinds under their Data Vault names, with a vault's defaults.

Such a kind is read as FIRST_SEEN or CHANGES, and plans and versions contain only these two names.
So replacing HUB with FIRST_SEEN (and equal properties) rebuilds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import make_dataclass, replace
from typing import Any

from vde_dagster.api.kinds import Kind
from vde_dagster.plugins.vault.kinds import Changes, FirstSeen

Properties = Mapping[str, Any]

DEFAULTS: Properties = {"time": "ldts", "source": "rsrc"}
"""Default properties of headers."""


def _spelling(
    name: str,
    kind: type[Kind],
    summary: str,
    *,
    needs: tuple[str, ...] = ("key",),
    read: Callable[[Properties], Properties] = lambda given: given,
) -> type[Kind]:
    """Create a kind that is another name of `kind` in headers.

    Args:
        needs: Required properties of a header.
        read: Converts the header's properties and the defaults to the kind's properties.
    """
    properties = tuple(replace(item, required=item.name in needs) for item in kind.properties)

    def from_properties(cls: type[Kind], given: Properties) -> Kind:
        return kind.from_properties(read({**DEFAULTS, **given}))

    body = {
        "from_properties": classmethod(from_properties),
        "summary": summary,
        "properties": properties,
    }
    return make_dataclass(
        name.title().replace("_", ""),
        [("name", str, name)],
        bases=(kind,),
        namespace={**body, "__doc__": f"{summary}.", "__module__": __name__},
        frozen=True,
        slots=True,
    )


def _key_with_source(given: Properties) -> Properties:
    return {**given, "key": tuple(dict.fromkeys((*given["key"], given["time"], given["source"])))}


Hub = _spelling("HUB", FirstSeen, "FIRST_SEEN of business keys")
Link = _spelling("LINK", FirstSeen, "FIRST_SEEN of the keys of several hubs")
NonHistorizedLink = _spelling("NON_HISTORIZED_LINK", FirstSeen, "FIRST_SEEN of events")
Reference = _spelling("REFERENCE", FirstSeen, "FIRST_SEEN of codes")
RecordTracking = _spelling(
    "RECORD_TRACKING",
    FirstSeen,
    "FIRST_SEEN of a key with its time and source",
    read=_key_with_source,
)
Satellite = _spelling("SATELLITE", Changes, "CHANGES of a key's columns")
MultiActiveSatellite = _spelling(
    "MULTI_ACTIVE_SATELLITE", Changes, "CHANGES of a key's sets of rows", needs=("key", "set_key")
)
EffectivitySatellite = _spelling(
    "EFFECTIVITY_SATELLITE",
    Changes,
    "CHANGES of a link's other keys (set_key) for each driving key",
    needs=("key", "set_key"),
)
StatusTracking = _spelling(
    "STATUS_TRACKING",
    Changes,
    "CHANGES of whole deliveries, with absent DELETE",
    read=lambda given: {"absent": "DELETE", **given},
)
