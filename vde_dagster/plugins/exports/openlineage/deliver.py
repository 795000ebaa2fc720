"""The exporter `openlineage`: makes events of records, and sends them in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from vde_dagster.errors import UsageError
from vde_dagster.project.settings import expand_secrets

if TYPE_CHECKING:
    from openlineage.client.event_v2 import DatasetEvent, JobEvent, RunEvent

    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.state.db.outbox import OutboxRecord


def export(workspace: Workspace, records: Sequence[OutboxRecord]) -> None:
    """Send what records say; those that a receiver did not take come again.

    Raises:
        UsageError: OpenLineage's client is not installed, or nobody said where to send to.
    """
    try:
        from openlineage.client import OpenLineageClient
    except ImportError:
        raise UsageError(
            "OpenLineage's client is not installed",
            hint="pip install 'vde-dagster[openlineage] @ git+URL'",
        ) from None
    said = workspace.settings.plugins.get("openlineage") or {}
    transport = _expanded(said.get("transport") or {})
    client = OpenLineageClient(config={"transport": transport} if transport else {})
    if client.transport.kind == "console":
        raise UsageError(
            "nobody says where OpenLineage's events go",
            hint="write openlineage.transport = { type = 'http', url = '…' } below [tool.vde], or "
            "set OPENLINEAGE_URL",
        )
    try:
        for event in events(workspace, records):
            client.emit(event)
    finally:
        client.close()


def events(
    workspace: Workspace, records: Sequence[OutboxRecord]
) -> Iterator[RunEvent | DatasetEvent | JobEvent]:
    """Yield the events of records, in order."""
    from openlineage.client.event_v2 import set_producer

    from vde_dagster.plugins.exports.openlineage.publications import Publications
    from vde_dagster.plugins.exports.openlineage.runs import PRODUCER, Runs

    set_producer(PRODUCER)
    runs = Runs(workspace)
    published = Publications(runs)
    for record in records:
        yield from runs.events(record)
        yield from published.events(record)


def _expanded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _expanded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_expanded(one) for one in value]
    return expand_secrets(value) if isinstance(value, str) else value
