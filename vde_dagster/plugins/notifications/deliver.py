"""Sending: each receiver follows the outbox with its own position, and gets each message once.

The position moves as soon as a service has accepted a message. If the process is killed, the next
call repeats only the message in transit. An unavailable service delays only its own receivers.
"""

from __future__ import annotations

import os
import re
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from vde_dagster.api.errors import ExecutionError, ProjectError, UsageError
from vde_dagster.api.values import count, expand_secrets, how_to_install
from vde_dagster.plugins.notifications.late import note_late
from vde_dagster.plugins.notifications.messages import Message, Messages, Tone
from vde_dagster.plugins.notifications.settings import Address, Receiver, receivers

if TYPE_CHECKING:
    from vde_dagster.api.workspace import OutboxRecord, Workspace

FIRST = timedelta(days=1)
"""Maximum age of the events for a new receiver."""
_HOUR = timedelta(hours=1)
_MOST_TOGETHER = 20
"""Maximum number of messages that are listed in a combined message."""


@dataclass(slots=True)
class Notified:
    """The result for a receiver.

    Args:
        sent: Number of messages; a combined message counts as one.
        told: Number of records in these messages.
        held: Records that wait because the receiver has reached its limit for this hour.
        forgotten: Records that were deleted before they could be sent.
        problem: The reason why the receiver did not get all messages.
    """

    receiver: str
    sent: int = 0
    told: int = 0
    held: int = 0
    forgotten: int = 0
    problem: str = ""


def send(workspace: Workspace, is_late: Callable[[], bool] = lambda: False) -> list[Notified]:
    """Send every receiver its new messages, beginning with the receiver that waits longest.

    Args:
        is_late: Returns True when the remaining records and receivers should wait for the next
            call.

    Raises:
        UsageError: No receivers are configured, or Apprise is not installed.
        ConflictError: Another process sends at this moment.
    """
    found = receivers(workspace.settings)
    if not found:
        raise UsageError(
            "no receivers of notifications are configured",
            hint="write team = { url = 'slack://…' } below [tool.vde.notify.targets]",
        )
    _apprise()
    messages = Messages(workspace)
    owner = f"process {os.getpid()}, {uuid.uuid4().hex[:8]}"
    with workspace.store.leases.holding("notify", owner, wait_seconds=0):
        note_late(workspace, [one for one in found if "late" in one.events])
        due = [_Delivery(workspace, messages, receiver, is_late) for receiver in found]
        due.sort(key=lambda one: one.began)
        return [one.run() for one in due if not is_late()]


@dataclass
class _Delivery:
    """Messages to one receiver."""

    workspace: Workspace
    messages: Messages
    receiver: Receiver
    is_late: Callable[[], bool]

    def __post_init__(self) -> None:
        self.consumer = f"notify/{self.receiver.name}"
        self.now = self.workspace.store.database.clock.now()
        self.began = self.workspace.store.outbox.cursor(self.consumer)
        self.done = Notified(self.receiver.name)

    def run(self) -> Notified:
        try:
            took = self.workspace.maintenance.deliver(
                self.consumer, self._take, "`vde notify send`"
            )
            self.done.forgotten = took.forgotten
        except (ExecutionError, ProjectError, UsageError) as error:
            self.done.problem = error.message
        return self.done

    def _take(self, _: object, records: Sequence[OutboxRecord]) -> int | None:
        """Send the messages for records.

        Returns:
            The number of the last processed record if later records must wait, otherwise None.
        """
        wanted: list[Message] = []
        stop = None
        for record in records:
            if (one := self._wanted(record)) is not None:
                wanted.append(one)
            if record != records[-1] and self.is_late():
                stop = record.number
                break
        if not wanted:
            return stop
        left = self._allowed()
        if left < 1:
            self.done.held = len(wanted)
            return wanted[0].number - 1
        if len(wanted) > left:
            self._send(wanted)
            return stop
        for one in wanted:
            self._send([one])
            if self.is_late():
                return one.number
        return stop

    def _wanted(self, record: OutboxRecord) -> Message | None:
        if not self.began and record.at < self.now - FIRST:
            return None
        one = self.messages.for_record(record)
        if one is None or not one.is_for(self.receiver):
            return None
        wanted = self.receiver.wants_environment(one.environment, self.workspace.settings)
        return one if wanted else None

    def _allowed(self) -> int:
        """Return the remaining number of messages for the receiver in this hour."""
        most = int(self.workspace.settings.plugins["notify"]["per_hour"])
        name, since = self.receiver.name, self.now - _HOUR
        told = self.workspace.store.outbox.with_kind("told")
        own = [one for one in told if one.at > since and one.subject["receiver"] == name]
        return most - len(own)

    def _send(self, messages: Sequence[Message]) -> None:
        """Send one or several messages as one message, and record it."""
        project = self.workspace.settings.name
        if len(messages) == 1:
            subject, body = messages[0].subject, messages[0].body(self.receiver)
        else:
            subject, body = _together(messages)
        tone: Tone = max((one.tone for one in messages), key=_TONES.index)
        notify(self.receiver, f"[{project}] {subject}", body, tone)
        outbox = self.workspace.store.outbox
        outbox.move_cursor(self.consumer, messages[-1].number)
        outbox.add("told", [{"receiver": self.receiver.name, "subject": subject}])
        self.done.sent += 1
        self.done.told += len(messages)


_TONES: tuple[Tone, ...] = ("info", "success", "warning", "failure")


def _together(messages: Sequence[Message]) -> tuple[str, str]:
    lines: list[str] = []
    for one in messages[:_MOST_TOGETHER]:
        lines += [f"- {one.subject}", f"  {one.next}"]
    if len(messages) > _MOST_TOGETHER:
        lines.append(f"and {len(messages) - _MOST_TOGETHER} more")
    return f"{len(messages)} events", "\n".join(lines)


def notify(receiver: Receiver, subject: str, body: str, tone: Tone) -> None:
    """Send a message to a receiver.

    Raises:
        UsageError: The receiver's URL is not valid for Apprise.
        ExecutionError: The service did not accept the message.
    """
    apprise = _apprise()
    address = expand_secrets(receiver.url)
    asset = apprise.AppriseAsset(storage_mode=apprise.PersistentStoreMode.MEMORY)
    service = apprise.Apprise.instantiate(address, asset=asset)
    if service is None:
        raise UsageError(
            f"the address of '{receiver.name}' is not valid for Apprise",
            hint="https://appriseit.com/services has the form of each service's URL",
        )
    if "overflow" not in address:  # a text too long for a service is better cut than refused
        service.overflow_mode = apprise.OverflowMode.TRUNCATE
    sender = apprise.Apprise(asset=asset)
    sender.add(service)
    with apprise.LogCapture(level=apprise.logging.WARNING, fmt="%(message)s") as log:
        taken = sender.notify(title=subject, body=body, notify_type=tone, body_format="text")
        said = " ".join(log.getvalue().split())
    if not taken:
        hidden = {
            str(address),
            service.url(),
            service.user,
            service.password,
            *_secrets(receiver.url),
        }
        for secret in sorted(filter(None, hidden), key=len, reverse=True):
            said = said.replace(secret, "…")
        raise ExecutionError(f"'{receiver.name}' did not accept a message: {said}")


def _secrets(address: Address) -> list[str]:
    """Return the values of environment variables in an address."""
    return [expand_secrets(found) for found in re.findall(r"\$\{\w+\}", str(address))]


@cache
def _apprise() -> Any:
    try:
        import apprise
    except ImportError:
        raise UsageError(
            "Apprise, which sends notifications, is not installed",
            hint=how_to_install("notify"),
        ) from None
    apprise.logger.propagate = False  # It may quote addresses.
    on = cast("Any", apprise.decorators.notify)
    on(on="console", name="The process' own output")(_print)
    return apprise


def _print(body: str, title: str, *_: Any, **__: Any) -> None:
    """Print messages for `console://vde` to stderr."""
    print(f"{title}\n{body}", file=sys.stderr, flush=True)


def sentence(done: Notified) -> str:
    """Describe the result for a receiver."""
    told = f" of {count(done.told, 'record')}" if done.told != done.sent else ""
    parts = [f"{done.receiver}: {count(done.sent, 'message')}{told}"]
    if done.held:
        parts.append(f"{done.held} wait for the next hour")
    if done.forgotten:
        parts.append(f"{count(done.forgotten, 'record')} were deleted before")
    if done.problem:
        parts.append(done.problem)
    return "; ".join(parts)
