"""Iceberg tables of sessions that have no JVM: metadata read here, changes made by statements."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import quote
from vde_dagster.errors import UsageError
from vde_dagster.lakehouse.metadata.fill_summaries import FILL_KEY
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.spark.session.failures import has_java_cause
from vde_dagster.spark.tables.columns import spark_type, string_literal
from vde_dagster.spark.tables.iceberg import CONFLICTS, MAIN, Commit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from vde_dagster.lakehouse import Lakehouse


_ATTEMPTS = 20


class RemoteTable:
    """An Iceberg table for sessions of a Spark Connect server, with the methods of `IcebergTable`.

    Args:
        catalog: The catalog's name in it.
        lakehouse: The same catalog, without Spark.

    Raises:
        ExecutionError: There is no such table.
    """

    def __init__(
        self, session: SparkSession, catalog: str, ref: TableRef, lakehouse: Lakehouse
    ) -> None:
        self._session = session
        self._catalog = catalog
        self._lakehouse = lakehouse
        self.ref = ref
        self._name = ".".join(map(quote, (catalog, ref.namespace, ref.name)))
        self._metadata: dict[str, Any] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read the table's newest metadata."""
        self._metadata = self._lakehouse.table_metadata(self.ref)

    def types(self) -> dict[str, str]:
        """Return the columns' Spark SQL types by name, in order."""
        fields = self._session.table(self._name).schema.fields
        return {field.name: spark_type(field.dataType) for field in fields}

    def partition_fields(self) -> list[tuple[str, str, str]]:
        """Return (name, transform, column) of the current partitioning, as Iceberg calls them."""
        schemas = {one["schema-id"]: one["fields"] for one in self._metadata["schemas"]}
        specs = {one["spec-id"]: one["fields"] for one in self._metadata["partition-specs"]}
        columns = {
            field["id"]: str(field["name"])
            for field in schemas[self._metadata["current-schema-id"]]
        }
        return [
            (str(field["name"]), str(field["transform"]), columns[field["source-id"]])
            for field in specs[self._metadata["default-spec-id"]]
            if field["transform"] != "void"
        ]

    def property(self, name: str) -> str | None:
        """Return a table property."""
        value: str | None = self._metadata.get("properties", {}).get(name)
        return value

    def head(self, branch: str | None) -> int | None:
        """Return the id of a branch's newest snapshot; None when it is missing or empty."""
        found = self._metadata.get("refs", {}).get(branch or MAIN)
        return int(found["snapshot-id"]) if found is not None else None

    def has_branch(self, branch: str) -> bool:
        """Say whether a branch exists."""
        return branch in self._metadata.get("refs", {})

    def ensure_branch(self, branch: str, of: str | None = None) -> None:
        """Create a branch at the head of `main`, or of another one, unless it exists."""

        def create() -> None:
            if not self.has_branch(branch):
                self._create_branch(branch, self.head(of))

        self._retried(create)

    def branch_at(self, name: str, branch: str | None) -> None:
        """Create a branch at the head of another one."""
        self._retried(lambda: self._create_branch(name, self.head(branch)))

    def drop_branch(self, branch: str) -> None:
        """Remove a branch if it exists."""
        self._retried(lambda: self._alter(f"DROP BRANCH IF EXISTS {quote(branch)}"))

    def parent(self, snapshot_id: int | None) -> int | None:
        """Return the snapshot that a snapshot was committed on, or None for the first one."""
        if snapshot_id is None:
            return None
        parent = self._snapshots()[snapshot_id].get("parent-snapshot-id")
        return int(parent) if parent is not None else None

    def roll_back(self, snapshot_id: int) -> None:
        """Take `main` back to what a snapshot was committed on, unless others wrote since."""

        def take_back() -> None:
            before = self.parent(snapshot_id)
            if self.head(None) != snapshot_id:
                return
            if before is None:
                self._run(f"DELETE FROM {self._name}")
            else:
                self._alter(f"REPLACE BRANCH {quote(MAIN)} AS OF VERSION {before}")

        self._retried(take_back)

    def fast_forward(self, branch: str | None, to: str) -> bool:
        """Move a branch forward to the head of another; False when it has moved since."""
        table = string_literal(f"{quote(self.ref.namespace)}.{quote(self.ref.name)}")
        try:
            self._run(
                f"CALL {quote(self._catalog)}.system.fast_forward("
                f"table => {table}, branch => {string_literal(branch or MAIN)}, "
                f"to => {string_literal(to)})"
            )
        except Exception as error:
            moved = "is not an ancestor" in str(error)
            if moved or has_java_cause(error, *CONFLICTS):
                return False
            raise
        self.refresh()
        return True

    def cherry_pick(self, source: str, onto: str) -> int | None:
        """Commit to a branch what another one holds, as far as moving it forward does that.

        No statement commits a choice of files: None where another batch was committed since.
        """
        self.refresh()
        picked, head = self.head(source), self.head(onto)
        line = (snapshot["snapshot-id"] for snapshot in self._line(source))
        if picked is None or (head is not None and head not in line):
            return None
        return picked if self.fast_forward(onto, source) else None

    def was_filled(self, branch: str | None) -> bool:
        """Say whether a branch (or `main`) holds rows, or a commit of a fill, even an empty one."""
        summaries = (snapshot.get("summary", {}) for snapshot in self._line(branch))
        return any(
            FILL_KEY in found or int(found.get("total-records") or 0) > 0 for found in summaries
        )

    def find_commit(
        self, branch: str | None, summary: Mapping[str, str], limit: int = 1000
    ) -> Commit | None:
        """Return the newest commit of a branch whose summary holds all given properties."""
        for number, snapshot in enumerate(self._line(branch)):
            found = snapshot.get("summary", {})
            if number == limit:
                return None
            if all(found.get(key) == value for key, value in summary.items()):
                return Commit(
                    int(snapshot["snapshot-id"]),
                    int(found.get("added-records") or 0),
                    int(found.get("added-files-size") or 0),
                )
        return None

    def summary(self, snapshot_id: int) -> dict[str, str]:
        """Return a commit's summary."""
        return dict(self._snapshots()[snapshot_id].get("summary", {}))

    def _snapshots(self) -> dict[int, dict[str, Any]]:
        return {one["snapshot-id"]: one for one in self._metadata.get("snapshots", ())}

    def _line(self, branch: str | None) -> Iterator[dict[str, Any]]:
        """Yield a branch's snapshots, the newest first."""
        known, at = self._snapshots(), self.head(branch)
        while at is not None and at in known:
            yield known[at]
            at = known[at].get("parent-snapshot-id")

    def _create_branch(self, name: str, head: int | None) -> None:
        at = "" if head is None else f" AS OF VERSION {head}"
        self._alter(f"CREATE BRANCH {quote(name)}{at}")

    def _alter(self, change: str) -> None:
        self._run(f"ALTER TABLE {self._name} {change}")

    def _run(self, statement: str) -> None:
        self._session.sql(statement).collect()

    def _retried(self, change: Callable[[], None]) -> None:
        """Run a change of branches again when somebody else committed first."""
        for attempt in range(_ATTEMPTS):
            self.refresh()
            try:
                change()
            except Exception as error:
                if attempt == _ATTEMPTS - 1 or not has_java_cause(error, *CONFLICTS):
                    raise
                time.sleep(0.05 * (attempt + 1))
            else:
                return self.refresh()


def remote_table(
    session: SparkSession, catalog: str, ref: TableRef, lakehouse: Lakehouse | None
) -> RemoteTable:
    """Load a table's metadata.

    Raises:
        UsageError: The engine was made without the catalog.
        ExecutionError: There is no such table.
    """
    if lakehouse is None:
        raise UsageError(
            "an engine on Spark Connect needs a Lakehouse to read the catalog",
            hint="open a Workspace, or give SparkEngine its lakehouse",
        )
    return RemoteTable(session, catalog, ref, lakehouse)
