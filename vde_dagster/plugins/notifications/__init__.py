"""Notifications: what matters, told to people by Apprise's services; see docs/notifications.md.

`messages` makes one message of one record of the state's outbox, `settings` says who gets which,
and `deliver` follows the outbox for each receiver, with a place of its own. `sensor` calls it from
Dagster, `commands` from the command line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vde_dagster.project.settings import Settings


def notify_sensors(settings: Settings) -> Iterable[Any]:
    """Return the sensor that sends notifications; none of a project that names nobody."""
    if not settings.plugins.get("notify"):
        return ()
    from vde_dagster.plugins.notifications.sensor import notify_sensor

    return (notify_sensor(settings),)
