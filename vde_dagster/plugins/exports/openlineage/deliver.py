"""The exporter `openlineage`, which converts outbox records to events and sends them in order."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.api.errors import ExecutionError, UsageError, VdeError
from vde_dagster.api.values import (
    count,
    expand_secrets,
    how_to_install,
    json_value,
    listed,
    mask,
    suggest,
)

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import DatasetEvent, JobEvent, RunEvent

    from vde_dagster.api.workspace import OutboxRecord, Workspace

    Event = RunEvent | DatasetEvent | JobEvent

_REFUSED_STATUSES = (400, 409, 413, 422)
"""Status codes of a receiver that rejects a single event."""
_ACKNOWLEDGING = ("http", "file", "console")
"""Transports that acknowledge each event. If another one fails, the whole batch is sent again."""
_KEYS = ("type", "name", "priority")
"""Keys of all transports."""
_SPELLINGS = (
    *("sslContext", "sslcontext", "message_key", "domainId", "endpointOverride"),
    *("apiKey", "apikey"),
)
"""Keys that OpenLineage's client reads, although its config classes have no such parameters."""


def export(workspace: Workspace, records: Sequence[OutboxRecord]) -> None:
    """Convert outbox records to OpenLineage events, and send them.

    Events without an acknowledgment are sent again by the next call.

    Raises:
        UsageError: OpenLineage's client is not installed, or has no valid transport.
        ExecutionError: The receiver failed after some records, or refused events.
    """
    settings = workspace.settings.plugins.get("openlineage") or {}
    client = _open_client(settings.get("transport") or {})
    refused, outbox = RefusedEvents(workspace), workspace.store.outbox
    acknowledges = client.transport.kind in _ACKNOWLEDGING
    sender = _Sender(lambda event: client.emit(_mask_secrets(event)), refused)
    lost = _LoggedErrors()
    logger = logging.getLogger("openlineage.client.transport")
    logger.addHandler(lost)
    try:
        sender.send(_make_events(workspace, records, refused))
    except VdeError:
        raise
    except Exception as error:
        if not acknowledges:
            raise
        outbox.move_cursor("openlineage", sender.record - 1)
        raise ExecutionError(
            f"exporter 'openlineage' failed at record {sender.record}: "
            f"{type(error).__name__}: {error}{refused.note()}",
            hint="`vde export openlineage` continues with this record; events of earlier records "
            "were delivered",
        ) from error
    finally:
        try:
            client.close()
        finally:
            logger.removeHandler(lost)
    if lost.messages and not acknowledges:
        raise ExecutionError(
            f"exporter 'openlineage' failed at records {records[0].number} to "
            f"{records[-1].number}: {listed(lost.messages, 1)}",
            hint="`vde export openlineage` sends these records again; if the receiver refuses the "
            "same event each time, use the transport 'http', which stores refused events in a file "
            "and continues",
        )
    if refused.events:
        outbox.move_cursor("openlineage", records[-1].number)
        raise refused.error()


def _open_client(given: Mapping[str, Any]) -> OpenLineageClient:
    try:
        from openlineage.client import OpenLineageClient
    except ImportError:
        raise UsageError(
            "OpenLineage's client is not installed", hint=how_to_install("openlineage")
        ) from None
    transport = expand_secrets(given)
    try:
        client = OpenLineageClient(config={"transport": transport} if transport else {})
    except Exception as error:
        raise UsageError(
            f"OpenLineage's client refuses its transport: {type(error).__name__}: {error}",
            hint="https://openlineage.io/docs/client/python/ lists transports and their keys",
        ) from error
    used = client.transport
    if used.kind == "noop":
        raise UsageError(
            "OpenLineage's client sends no events, because it is disabled",
            hint="unset OPENLINEAGE_DISABLED, or choose a transport other than 'noop'",
        )
    if used.kind == "console":
        raise UsageError(
            "no transport for OpenLineage's events is configured",
            hint="write openlineage.transport = { type = 'http', url = '…' } below [tool.vde], or "
            "set OPENLINEAGE_URL",
        )
    if type(used).__module__.startswith("openlineage."):  # Other classes may take any key.
        known = [*_KEYS, *inspect.signature(used.config_class).parameters]
        for key in given:
            if key not in (*known, *_SPELLINGS):
                raise UsageError(
                    f"setting 'openlineage.transport.{key}' is not a key of the transport "
                    f"'{used.kind}'",
                    hint=suggest(key, known, "keys"),
                )
    return client


class _LoggedErrors(logging.Handler):
    """Collects sending errors that a transport logs instead of raising."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def _make_events(
    workspace: Workspace, records: Sequence[OutboxRecord], refused: RefusedEvents
) -> Iterator[tuple[int, Event]]:
    from openlineage.client.event_v2 import set_producer

    from vde_dagster.plugins.exports.openlineage.publications import Publications
    from vde_dagster.plugins.exports.openlineage.runs import PRODUCER, Runs

    set_producer(PRODUCER)
    runs = Runs(workspace)
    published = Publications(runs)
    for record in records:
        try:
            made = [*runs.events(record), *published.events(record)]
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            refused.append(f"record {record.number} ({record.kind})", "", error)
            continue
        for event in made:
            yield record.number, event


@dataclass
class _Sender:
    """Sends events one by one.

    Args:
        emit: Returns once the receiver has acknowledged an event.
        record: The number of the outbox record whose event is being sent.
    """

    emit: Callable[[Event], None]
    refused: RefusedEvents
    record: int = 0

    def send(self, events: Iterator[tuple[int, Event]]) -> None:
        """Send all events, and store the events that the receiver refuses.

        Raises:
            Exception: The receiver cannot be reached, or accepts no events at present.
        """
        for number, event in events:
            self.record = number
            failure = self._try(event)
            if failure is None:
                continue
            # The receiver may have failed because of this event alone. Then it accepts the next
            # event, and fails at this event again.
            following = next(events, None)
            if following is None:
                raise failure
            if self._try(following[1]) is not None:
                raise failure
            failure = self._try(event)
            if failure is not None:
                self.refused.append(_title(event), _json(event), failure)

    def _try(self, event: Event) -> Exception | None:
        """Send an event, or store it if the receiver refuses it. Return a server error, if any."""
        from requests import HTTPError
        from requests.exceptions import RetryError

        try:
            self.emit(event)
        except RetryError as error:
            return error
        except HTTPError as error:
            status = error.response.status_code if error.response is not None else 0
            if status in _REFUSED_STATUSES:
                self.refused.append(_title(event), _json(event), error)
            elif status >= 500:
                return error
            else:
                raise
        return None


@dataclass
class RefusedEvents:
    """Writes refused events to a file of the project.

    A record whose events could not be created gets a line without an event.
    """

    workspace: Workspace
    events: list[str] = field(default_factory=list)

    @property
    def path(self) -> Path:
        """The file of refused events and the reasons, with one JSON object per line."""
        return self.workspace.settings.work_dir / "openlineage_refused.jsonl"

    def append(self, title: str, event: str, error: Exception) -> None:
        why = mask(f"{type(error).__name__}: {error}")
        self.events.append(f"{title} ({why[:200]})")
        database = self.workspace.store.database
        line = {"at": json_value(database.clock.now()), "why": why}
        text = json.dumps({**line, "title": title, "event": json.loads(event or "null")})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with (
            database.effects.at("openlineage.refused", str(self.path)),
            self.path.open("a", encoding="utf-8") as file,
        ):
            file.write(text + "\n")

    def note(self) -> str:
        """Return a note for the end of a message; empty without refused events."""
        if not self.events:
            return ""
        return (
            f"; earlier, {count(len(self.events), 'event')} could not be exported: see {self.path}"
        )

    def error(self) -> ExecutionError:
        more = f", and {len(self.events) - 1} more" if len(self.events) > 1 else ""
        return ExecutionError(
            f"{count(len(self.events), 'OpenLineage event')} could not be exported: "
            f"{self.events[0]}{more}",
            hint=f"{self.path} lists these events with reasons; all other events of the records "
            "so far were delivered, and `vde export openlineage` continues with the next record",
        )


def _title(event: Event) -> str:
    job = getattr(event, "job", None)
    named = job if job is not None else event.dataset  # type: ignore[union-attr]
    state = getattr(event, "eventType", None)
    return f"{state.name if state is not None else type(event).__name__} of {named.name}"


def _json(event: Event) -> str:
    from openlineage.client.serde import Serde

    return Serde.to_json(event)


def _mask_secrets(value: Any) -> Any:
    import attr

    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {key: _mask_secrets(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_mask_secrets(one) for one in value]
    if attr.has(type(value)):
        for field in attr.fields(type(value)):
            part = getattr(value, field.name, None)
            made = _mask_secrets(part)
            if made is not part and made != part:
                object.__setattr__(value, field.name, made)
    return value
