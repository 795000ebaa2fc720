"""The sink `http`: batches are posted at least once, each with an idempotency key."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from vde_dagster.api.catalogs import Effects
from vde_dagster.api.errors import ExecutionError, UsageError
from vde_dagster.api.sinks import Batch, Step
from vde_dagster.api.values import json_value

if TYPE_CHECKING:
    from requests import Session

    from vde_dagster.api.workspace import Workspace

_RETRIED_STATUSES = (429, 500, 502, 503, 504)
_REFUSED_STATUSES = (400, 409, 413, 422)
"""Status codes of servers that refuse the rows of a batch."""


class HttpSink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An HTTP address that accepts batches of changes as JSON.

    Args:
        headers: Sent with each batch; `${NAME}` is read from the environment when used.
        rate: Maximum number of batches per second; 0 for no limit.
        attempts: Number of attempts to send a batch before the run stops.
        backoff: Sets the waits between attempts: none before the second, `2 * backoff` seconds
            before the third, then twice as long each time, with jitter. `Retry-After` takes
            precedence.
        timeout: Maximum number of seconds until a response.
    """

    url: str
    method: Literal["POST", "PUT"] = "POST"
    headers: dict[str, str] = {}
    rate: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    attempts: Annotated[int, msgspec.Meta(ge=1)] = 6
    backoff: Annotated[float, msgspec.Meta(ge=0)] = 0.5
    timeout: Annotated[float, msgspec.Meta(gt=0)] = 30.0

    @property
    def place(self) -> str:
        return self.url.partition("?")[0].rpartition("@")[2]

    @contextmanager
    def open(self, workspace: Workspace, sync: str, *, dry: bool = False) -> Iterator[BatchPoster]:
        import requests
        from requests.adapters import HTTPAdapter
        from urllib3.util import Retry

        retry = Retry(
            total=self.attempts - 1,
            backoff_factor=self.backoff,
            backoff_jitter=self.backoff,
            status_forcelist=_RETRIED_STATUSES,
            allowed_methods=None,
            redirect=False,
            raise_on_status=False,
        )
        with requests.Session() as session:
            for scheme in ("http://", "https://"):
                session.mount(scheme, HTTPAdapter(max_retries=retry))
            yield BatchPoster(self, session, workspace.store.database.effects)


@dataclass
class BatchPoster:
    sink: HttpSink
    session: Session
    effects: Effects
    _step_fields: dict[str, Any] = field(default_factory=dict)
    _run: bytes = b""
    _next: float = 0.0

    def begin(self, step: Step) -> None:
        self._step_fields = {
            "sync": step.sync,
            "environment": step.environment,
            "since": step.since,
            "version": step.until,
            "mode": step.mode,
            "full": not step.since,
        }
        self._run = step.run.encode()
        self._key = step.key

    def send(self, batch: Batch) -> int:
        change = "upsert" if self._key else "append"
        changes: list[dict[str, Any]] = [
            {"change": change, "row": json_value(row)} for row in batch.rows
        ]
        changes += [{"change": "delete", "key": json_value(key)} for key in batch.gone]
        self._post({**self._step_fields, "batch": batch.number, "changes": changes})
        return len(batch)

    def end(self) -> int:
        """Post `"batch": "end"` if a mirror sent all rows: the receiver deletes unsent rows."""
        if self._step_fields["full"] and self._step_fields["mode"] == "mirror":
            self._post({**self._step_fields, "batch": "end", "changes": []})
        return 0

    def _post(self, payload: dict[str, Any]) -> None:
        from requests import RequestException

        sink, content = self.sink, msgspec.json.encode(payload)
        if sink.rate:
            time.sleep(max(0.0, self._next - time.monotonic()))
            self._next = time.monotonic() + 1 / sink.rate
        known = {
            "Content-Type": "application/json",
            "Idempotency-Key": blake2b(content + self._run, digest_size=16).hexdigest(),
        }
        try:
            with self.effects.at("sync.post", sink.place):
                answer = self.session.request(
                    sink.method,
                    sink.url,
                    data=content,
                    headers={**sink.headers, **known},
                    timeout=sink.timeout,
                    allow_redirects=False,
                )
        except ValueError as error:  # Also some errors of `requests`.
            raise UsageError(
                f"{sink.place} cannot be used: {error}",
                hint="correct `url` or `headers` of the sync in syncs.yaml",
            ) from error
        except RequestException as error:
            raise _stop_error(sink, f"cannot be reached: {type(error).__name__}") from error
        if answer.ok and answer.status_code < 300:
            return
        problem = f"answered {answer.status_code}: {answer.text[:300]}".rstrip(": ")
        if answer.status_code in _REFUSED_STATUSES:
            raise Batch.Refused(problem)
        raise _stop_error(sink, problem)


def _stop_error(sink: HttpSink, why: str) -> ExecutionError:
    return ExecutionError(
        f"{sink.place} {why}",
        hint="run the sync again: it continues with the same version, and sends each batch under "
        "the same idempotency key",
    )
