"""Asking a code location over GraphQL, as the web pages do, with its real server process."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.backfill import execute_backfill_iteration
from dagster_graphql.schema import create_schema

from vde_dagster_tests.orchestration.servers import BACKFILL

STALE = """
query Stale($key: AssetKeyInput!, $partitions: [String!]!) {
  assetNodeOrError(assetKey: $key) {
    ... on AssetNode { staleStatusByPartition(partitions: $partitions) }
  }
}
"""


class Location:
    """A loaded code location."""

    def __init__(self, context: WorkspaceProcessContext) -> None:
        self.context = context
        self._schema = create_schema()

    def ask(self, query: str, **variables: Any) -> Any:
        """Run a query."""
        request = self.context.create_request_context()
        result = self._schema.execute(query, context_value=request, variable_values=variables)
        assert not result.errors, result.errors
        return result.data

    def run_backfill(self, chosen: dict[str, list[str]]) -> BulkActionStatus:
        """Launch a backfill as "Materialize selected" does, and let the daemon's code end it.

        Args:
            chosen: Partitions of one range, by asset.
        """
        assets = [
            {
                "assetKey": {"path": name.split("/")},
                "partitions": {"ranges": [{"start": keys[0], "end": keys[-1]}]},
            }
            for name, keys in chosen.items()
        ]
        told = self.ask(BACKFILL, parameters={"partitionsByAssets": assets})
        number = told["launchPartitionBackfill"]["backfillId"]
        for _ in range(9):
            errors = [*execute_backfill_iteration(self.context, logging.getLogger("backfills"))]
            assert not any(errors), errors
            backfill = self.context.instance.get_backfill(number)
            assert backfill is not None
            if backfill.status is not BulkActionStatus.REQUESTED:
                return backfill.status
        raise AssertionError(f"the backfill {number} did not end")

    def stale(self, asset: str, partitions: list[str]) -> dict[str, str]:
        """Return the status of partitions of an asset: FRESH, STALE or MISSING."""
        data = self.ask(STALE, key={"path": asset.split("/")}, partitions=partitions)
        found = data["assetNodeOrError"]["staleStatusByPartition"]
        return dict(zip(partitions, found, strict=True))


@contextmanager
def open_location(root: Path, instance: dg.DagsterInstance, monkeypatch: Any) -> Iterator[Location]:
    """Load a project's code location in a server process of its own."""
    module = "vde_dagster.orchestration.location"
    monkeypatch.setenv("VDE_PROJECT", str(root))
    # Runs in this process import it, too: it may be the one of another test's project.
    monkeypatch.delitem(sys.modules, module, raising=False)
    target = ModuleTarget(
        module_name=module,
        attribute=None,
        working_directory=str(root),
        location_name="vde",
    )
    with WorkspaceProcessContext(instance, target) as context:
        request = context.create_request_context()
        errors = [
            e.load_error for e in request.get_code_location_entries().values() if e.load_error
        ]
        assert not errors, errors
        yield Location(context)
