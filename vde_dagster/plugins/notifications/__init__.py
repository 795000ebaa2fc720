"""Notifications about important events, sent with Apprise; see docs/notifications.md.

`messages` makes messages from records of the state's outbox, and `deliver` sends them to each
receiver in `settings`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vde_dagster.api.values import Settings


def notify_sensors(settings: Settings) -> Iterable[Any]:
    if not settings.plugins.get("notify"):
        return ()
    from vde_dagster.plugins.notifications.sensor import notify_sensor

    return (notify_sensor(settings),)
