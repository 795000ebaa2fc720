"""Notifications about important events, sent with Apprise; see docs/notifications.md.

`messages` makes messages from records of the state's outbox, `settings` selects their receivers,
and `deliver` follows the outbox for each receiver, with a separate position. `sensor` calls it from
Dagster, `commands` from the command line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vde_dagster.api.values import Settings


def notify_sensors(settings: Settings) -> Iterable[Any]:
    """Return the Dagster sensor that sends notifications, if the project configures receivers."""
    if not settings.plugins.get("notify"):
        return ()
    from vde_dagster.plugins.notifications.sensor import notify_sensor

    return (notify_sensor(settings),)
