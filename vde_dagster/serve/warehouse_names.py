"""What clients call a warehouse: `prod`, `prod@41`, `prod@2026-11-01T06:00`, `prod+live`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from vde_dagster.errors import UsageError

LIVE = "+live"
_CATALOG = re.compile(r"[\w.-]{1,128}")


@dataclass(frozen=True, slots=True)
class WarehouseName:
    """What the name of a warehouse, or the prefix of a path, says.

    Args:
        environment: The environment.
        meant: The version's number or a time (UTC), as it was written; None for the newest.
        live: Whether a session follows publications.
        catalog: What the client calls this catalog, where it has said so: `prod~lake`.
    """

    environment: str
    meant: str | None = None
    live: bool = False
    catalog: str | None = None

    @classmethod
    def parse(cls, text: str) -> WarehouseName:
        """Read a name; what an environment may be called is checked where it is looked up.

        Raises:
            UsageError: What the client calls this catalog can be no name in a path.
        """
        rest, sign, catalog = text.strip().partition("~")
        if sign and not _CATALOG.fullmatch(catalog):
            raise UsageError(
                f"no catalog is called '{catalog[:40]}'",
                hint="write letters, digits, '_', '-' and '.' behind '~': prod~lake",
            )
        environment, sign, meant = rest.partition("@")
        # A plus sign that a client sends as it is means a blank in a query string.
        live = not sign and environment.endswith((LIVE, " live"))
        if live:
            environment = environment[: -len(LIVE)]
        return cls(
            environment.strip().lower(), meant.strip() if sign else None, live, catalog or None
        )

    def at(self, version: int) -> WarehouseName:
        """Return the name of one version."""
        return replace(self, meant=str(version), live=False)

    def __str__(self) -> str:
        version = f"@{self.meant}" if self.meant is not None else LIVE if self.live else ""
        catalog = f"~{self.catalog}" if self.catalog else ""
        return f"{self.environment}{version}{catalog}"
