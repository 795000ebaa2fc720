"""Names of time zones."""

from __future__ import annotations

from zoneinfo import ZoneInfo, available_timezones

from vde_dagster.base.suggestions import suggest


def zone_name(text: str) -> str:
    """Return the IANA name of a time zone.

    Raises:
        LookupError: There is none of that name; says what may have been meant.
    """
    try:
        return ZoneInfo(text).key
    except (ValueError, OSError, KeyError):
        raise LookupError(suggest(text, available_timezones(), "time zones")) from None
