"""Sending of notifications: each receiver has its own position in the outbox.

The position moves as soon as a service has accepted a message. If the process is killed, the next
call repeats only the message in transit. An unavailable service delays only its own receivers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from vde_dagster.api.errors import ExecutionError, ProjectError, UsageError
from vde_dagster.api.values import count, expand_secrets, how_to_install
from vde_dagster.plugins.notifications.late import record_late_models
from vde_dagster.plugins.notifications.messages import Message, Messages, Tone
from vde_dagster.plugins.notifications.settings import Address, Receiver, read_receivers

if TYPE_CHECKING:
    from vde_dagster.api.workspace import OutboxRecord, Workspace

_MENTION = re.compile(r"(?<!\w)[!@](?=(?:channel|everyone|here|subteam)\b)|(?<=<)@", re.IGNORECASE)
"""The `!` or `@` that mentions everyone (`@here`) or one member (`<@U1>`) in Slack and Discord."""
FIRST = timedelta(days=1)
"""Maximum age of the events for a new receiver."""
_HOUR = timedelta(hours=1)
_MOST_TOGETHER = 20
"""Maximum number of messages that are listed in a combined message."""


@dataclass(slots=True)
class DeliveryResult:
    """Result of sending messages to a receiver.

    Args:
        sent: Number of messages; a combined message counts as one.
        told: Number of events in these messages.
        held: Number of events that wait, because of the receiver's limit per hour.
        forgotten: Number of records that were deleted before they were read.
        problem: The error that ended the delivery, or empty.
    """

    receiver: str
    sent: int = 0
    told: int = 0
    held: int = 0
    forgotten: int = 0
    problem: str = ""


def send_notifications(
    workspace: Workspace, is_late: Callable[[], bool] = lambda: False
) -> list[DeliveryResult]:
    """Send each receiver messages about new events. The receiver that waits longest is first.

    Args:
        is_late: Returns True when the remaining events and receivers should wait for the next call.

    Raises:
        UsageError: No receivers are configured, or Apprise is not installed.
        ConflictError: Another process is sending.
    """
    found = read_receivers(workspace.settings)
    if not found:
        raise UsageError(
            "no receivers of notifications are configured",
            hint="write team = { url = 'slack://…' } below [tool.vde.notify.targets]",
        )
    _apprise()
    messages = Messages(workspace)
    with workspace.store.leases.holding("notify"):
        record_late_models(workspace, [one for one in found if "late" in one.events])
        due = [_Delivery(workspace, messages, receiver, is_late) for receiver in found]
        due.sort(key=lambda one: one.began)
        return [one.run() for one in due if not is_late()]


@dataclass
class _Delivery:
    workspace: Workspace
    messages: Messages
    receiver: Receiver
    is_late: Callable[[], bool]

    def __post_init__(self) -> None:
        self.consumer = f"notify/{self.receiver.name}"
        self.now = self.workspace.store.database.clock.now()
        self.began = self.workspace.store.outbox.cursor(self.consumer)
        self.done = DeliveryResult(self.receiver.name)

    def run(self) -> DeliveryResult:
        outbox = self.workspace.store.outbox
        if not self.began:
            # Stored even if no record is that old: a service that is down now gets them all later.
            first = outbox.last_before(self.now - FIRST) or outbox.number().oldest - 1
            outbox.move_cursor(self.consumer, first)
        try:
            took = self.workspace.maintenance.deliver(
                self.consumer, self._send_records, "`vde notify send`"
            )
            self.done.forgotten = took.forgotten
        except (ExecutionError, ProjectError, UsageError) as error:
            self.done.problem = error.message
        return self.done

    def _send_records(self, _: object, records: Sequence[OutboxRecord]) -> int | None:
        """Send messages; return the last processed record's number if later records must wait."""
        wanted: list[Message] = []
        stop = None
        for record in records:
            if (one := self._message_for(record)) is not None:
                wanted.append(one)
            if record != records[-1] and self.is_late():
                stop = record.number
                break
        if not wanted:
            return stop
        left = self._remaining_messages()
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

    def _message_for(self, record: OutboxRecord) -> Message | None:
        one = self.messages.for_record(record)
        if one is None or not one.is_for(self.receiver):
            return None
        wanted = self.receiver.wants_environment(one.environment, self.workspace.settings)
        return one if wanted else None

    def _remaining_messages(self) -> int:
        most = int(self.workspace.settings.plugins["notify"]["per_hour"])
        name, since = self.receiver.name, self.now - _HOUR
        told = self.workspace.store.outbox.with_kind("told")
        own = [one for one in told if one.at > since and one.subject["receiver"] == name]
        return most - len(own)

    def _send(self, messages: Sequence[Message]) -> None:
        project = self.workspace.settings.name
        if len(messages) == 1:
            subject, body = messages[0].subject, messages[0].body(self.receiver)
        else:
            subject, body = _combine(messages)
        tone: Tone = max((one.tone for one in messages), key=_TONES.index)
        send_message(self.receiver, f"[{project}] {subject}", body, tone)
        outbox = self.workspace.store.outbox
        outbox.move_cursor(self.consumer, messages[-1].number)
        outbox.add("told", [{"receiver": self.receiver.name, "subject": subject}])
        self.done.sent += 1
        self.done.told += len(messages)


_TONES: tuple[Tone, ...] = ("info", "success", "warning", "failure")


def _combine(messages: Sequence[Message]) -> tuple[str, str]:
    lines: list[str] = []
    for one in messages[:_MOST_TOGETHER]:
        lines += [f"- {one.subject}", f"  {one.next}"]
    if len(messages) > _MOST_TOGETHER:
        lines.append(f"and {len(messages) - _MOST_TOGETHER} more")
    return f"{len(messages)} events", "\n".join(lines)


def send_message(receiver: Receiver, subject: str, body: str, tone: Tone) -> None:
    """Send one message to a receiver with Apprise.

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
    # An error may quote a mention from a row.
    subject, body = (_MENTION.sub("\\g<0>\u200b", text) for text in (subject, body))
    with apprise.LogCapture(level=apprise.logging.WARNING, fmt="%(message)s") as log:
        taken = sender.notify(title=subject, body=body, notify_type=tone, body_format="text")
        problem = " ".join(log.getvalue().split())
    if not taken:
        hidden = {
            str(address),
            service.url(),
            service.user,
            service.password,
            *_secrets(receiver.url),
        }
        for secret in sorted(filter(None, hidden), key=len, reverse=True):
            problem = problem.replace(secret, "…")
        raise ExecutionError(f"'{receiver.name}' did not accept a message: {problem}")


def _secrets(address: Address) -> list[str]:
    return [expand_secrets(found) for found in re.findall(r"\$\{\w+\}", str(address))]


@cache
def _apprise() -> Any:
    try:
        import apprise
    except ImportError:
        raise UsageError(
            "Apprise, which sends notifications, is not installed", hint=how_to_install("notify")
        ) from None
    apprise.logger.propagate = False  # It may quote addresses.
    on = cast("Any", apprise.decorators.notify)
    on(on="console", name="The process' own output")(_print)
    return apprise


def _print(body: str, title: str, *_: Any, **__: Any) -> None:
    print(f"{title}\n{body}", file=sys.stderr, flush=True)


def describe_result(done: DeliveryResult) -> str:
    """Describe a result, such as `team: 3 messages of 7 records`."""
    told = f" of {count(done.told, 'record')}" if done.told != done.sent else ""
    parts = [f"{done.receiver}: {count(done.sent, 'message')}{told}"]
    if done.held:
        parts.append(f"{done.held} wait because of the limit per hour")
    if done.forgotten:
        parts.append(f"{count(done.forgotten, 'record')} were deleted before they were sent")
    if done.problem:
        parts.append(done.problem)
    return "; ".join(parts)
