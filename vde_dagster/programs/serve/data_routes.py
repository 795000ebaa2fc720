"""Rows over HTTP as JSON, an Arrow stream or CSV, for programs that cannot read files."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote, urlencode

from anyio import CapacityLimiter, Event, move_on_after, to_thread
from fastapi import APIRouter, Header, Path, Query, Request, Response
from pydantic_core import to_json

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.lakehouse.io.files import encode_metadata, encode_rows
from vde_dagster.lakehouse.rows.row_order import Cursor
from vde_dagster.lakehouse.rows.row_values import json_rows
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.programs.serve.errors import ServeError, matches_tag, missing
from vde_dagster.programs.serve.loading import Loader
from vde_dagster.programs.serve.read_rows import Page, RowRequest, read_rows
from vde_dagster.programs.serve.served import ServedVersion, ServedVersions, WarehouseName

MOST_ROWS = 10_000
ROWS_AT_ONCE = 8
_WAIT_SECONDS = 60.0

Version = Annotated[
    str,
    Path(description="Environment (`prod`), or a version of it (`prod@41`, `prod@2026-11-01`)."),
]
Model = Annotated[str, Path(description="The model: `marts.daily`.")]
Columns = Annotated[
    str | None, Query(max_length=10_000, description="Columns, separated by commas; default all.")
]
Filter = Annotated[
    str | None, Query(description="A condition: `tenant = 7 AND day >= '2026-01-01'`.")
]
Sort = Annotated[
    str | None,
    Query(max_length=1_000, description="Columns to sort by, with `-` in front for descending."),
]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description="Maximum number of rows on a page.")]
After = Annotated[
    str | None, Query(max_length=20_000, description="`next` of the previous page, unchanged.")
]


def data_routes(versions: ServedVersions, loader: Loader) -> APIRouter:
    router = APIRouter(tags=["Rows"])
    slots = WorkerSlots(ROWS_AT_ONCE, _WAIT_SECONDS)

    @router.get("/data/{version}")
    def models(version: Version) -> Response:
        """List the models of a version."""
        served = versions.find(WarehouseName.parse(version))
        readable = sorted(map(str, (*served.tables, *served.columns_tables, *served.externals)))
        answer = {
            "environment": served.version.name,
            "version": served.version.version,
            "publication": served.version.publication_id,
            "models": readable,
            "views": sorted(map(str, served.views.keys() - served.columns_tables.keys())),
        }
        headers = _headers(served, served.version.publication_id)
        return Response(encode_metadata(answer), headers=headers, media_type=MEDIA["json"])

    @router.get(
        "/data/{version}/{model}",
        responses={200: {"content": {media: {} for media in MEDIA.values()}}, 304: {}},
        response_class=Response,
    )
    async def rows(
        request: Request,
        version: Version,
        model: Model,
        columns: Columns = None,
        filter: Filter = None,
        sort: Sort = None,
        limit: Limit = 1_000,
        cursor: After = None,
        format: Format | None = None,
        accept: Annotated[str, Header()] = "",
        if_none_match: Annotated[str, Header()] = "",
    ) -> Response:
        """Return a page of a model's rows; later pages read the same version."""
        name = WarehouseName.parse(version)
        behind = Cursor.read(cursor) if cursor is not None else None
        at = name if behind is None else name.at(behind.version)
        served = await to_thread.run_sync(versions.find, at)
        wanted = RowRequest(
            str(name),
            await to_thread.run_sync(_find_model, served, model),
            _split_names(columns),
            filter,
            _split_names(sort),
            limit,
            request.state.row_filter,
        )
        headers = _headers(served, await to_thread.run_sync(_rows_state, served, wanted))
        if matches_tag(headers["ETag"], if_none_match):
            return Response(status_code=304, headers=headers)
        page = await slots.run(
            partial(read_rows, served, loader, wanted, behind), _client_id(request)
        )
        if page.next is not None:
            query = {**request.query_params, "cursor": page.next.text()}
            headers["Link"] = f'<{quote(request.scope["path"])}?{urlencode(query)}>; rel="next"'
        form = choose_format(format, accept)
        content = await to_thread.run_sync(
            encode_page, page, form, served.version, str(wanted.model)
        )
        return Response(content, headers=headers, media_type=MEDIA[form])

    return router


def _client_id(request: Request) -> str:
    address = request.client.host if request.client is not None else ""
    return str(getattr(request.state, "who", None) or address)


def _find_model(served: ServedVersion, text: str) -> ModelName:
    # The list of models has names with dots and quotes as they are, unquoted.
    listed = (*served.tables, *served.externals, *served.views)
    found = next((one for one in listed if str(one) == text.lower()), None)
    return found or ModelName.parse(text, served.workspace.settings.default_namespace)


def _rows_state(served: ServedVersion, wanted: RowRequest) -> str:
    if not served.has(wanted.model):
        version = served.version
        raise missing(
            "Table", f"version {version.version} of '{version.name}' lacks the model {wanted.model}"
        )
    parts = [served.version.publication_id]
    if wanted.allowed is not None:
        parts.append(wanted.allowed)
    if wanted.model in served.externals:
        # Other programs write it, without a publication.
        ref = served.externals[wanted.model]
        parts.append(served.workspace.lakehouse.metadata_location(ref) or "")
    return parts[0] if len(parts) == 1 else digest("rows", *parts)[:32]


def _headers(served: ServedVersion, state: str) -> dict[str, str]:
    return {
        # Weak: the same rows have several forms.
        "ETag": f'W/"{state}"',
        # Rows are data, never a page or a script, whatever they look like.
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-cache",
        "Vary": "Accept, Authorization",
        "X-Vde-Version": f"{served.version.name}@{served.version.version}",
    }


def _split_names(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


_Found = TypeVar("_Found")


class WorkerSlots:
    """Runs functions in a limited number of threads. Clients take turns.

    Args:
        seconds: Maximum waiting time for a thread.
    """

    # Requests wait in one queue for each client, and the queues take turns. So a client with many
    # requests delays only its own requests.
    def __init__(self, slots: int, seconds: float) -> None:
        self._threads = CapacityLimiter(slots)
        self._slots = self._free_slots = slots
        self._seconds = seconds
        self._queues: dict[str, deque[Event]] = {}
        self._mean_seconds = 0.0

    async def run(self, work: Callable[[], _Found], client: str) -> _Found:
        """Run a function in a thread, and return its result.

        Raises:
            ServeError: No thread became free in time.
        """
        await self._acquire(client)
        begun = time.monotonic()
        try:
            return await to_thread.run_sync(work, limiter=self._threads)
        finally:
            # Recent requests have the highest weight.
            took = time.monotonic() - begun
            self._mean_seconds = (
                took if not self._mean_seconds else 0.8 * self._mean_seconds + 0.2 * took
            )
            self._release()

    async def _acquire(self, client: str) -> None:
        if self._free_slots:
            self._free_slots -= 1
            return
        if self._expected_wait(client) > self._seconds:
            raise self._busy_error(client)
        called = Event()
        self._queues.setdefault(client, deque()).append(called)
        try:
            with move_on_after(self._seconds) as waited:
                await called.wait()
        except BaseException:
            self._leave_queue(client, called)
            raise
        if waited.cancelled_caught and not called.is_set():
            refused = self._busy_error(client)
            self._leave_queue(client, called)
            raise refused

    def _leave_queue(self, client: str, called: Event) -> None:
        if called.is_set():
            self._release()
            return
        line = self._queues[client]
        line.remove(called)
        if not line:
            del self._queues[client]

    def _release(self) -> None:
        # That client then takes the last turn.
        if not self._queues:
            self._free_slots += 1
            return
        client = next(iter(self._queues))
        line = self._queues.pop(client)
        line.popleft().set()
        if line:
            self._queues[client] = line

    def _expected_wait(self, client: str) -> float:
        own = len(self._queues.get(client, ())) + 1
        ahead = sum(min(own, len(line)) for name, line in self._queues.items() if name != client)
        return (own + ahead) * self._mean_seconds / self._slots

    def _busy_error(self, client: str) -> ServeError:
        wait = max(1, math.ceil(self._expected_wait(client)))
        return ServeError(503, "the server is busy; try again", headers={"Retry-After": str(wait)})


Format = Literal["json", "arrow", "csv"]
MEDIA: dict[Format, str] = {
    "json": "application/json",
    "arrow": "application/vnd.apache.arrow.stream",
    "csv": "text/csv",
}


def choose_format(asked: Format | None, accept: str) -> Format:
    """Return the requested format; by default, the first known format in `Accept`, or JSON."""
    if asked is not None:
        return asked
    for part in accept.lower().split(","):
        kind = part.partition(";")[0].strip()
        for name, media in MEDIA.items():
            if kind == media:
                return name
    return "json"


def encode_page(page: Page, form: Format, version: Environment, model: str) -> bytes:
    """Encode a page of rows. Raise UsageError if CSV cannot represent a column."""
    if form != "json":
        return encode_rows(page.rows, form, "leave the column out, or request JSON")
    answer: dict[str, Any] = {
        "environment": version.name,
        "version": version.version,
        "publication": version.publication_id,
        "model": model,
        "columns": [{"name": one.name, "type": str(one.type)} for one in page.rows.schema],
        "rows": json_rows(page.rows),
        "next": page.next.text() if page.next is not None else None,
    }
    return to_json(answer)
