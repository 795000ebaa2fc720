"""Iceberg tables for strategies: reading metadata, branches, cherry-picked commits.

Iceberg's Java API is only used to copy a commit's files to another branch; the lakehouse does the
rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from vde_dagster.errors import ConflictError, UnknownOutcomeError
from vde_dagster.lakehouse.catalogs.catalog import PointerMovedError
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.metadata.changes import Updates, fast_forward, move_back, remove_branches
from vde_dagster.lakehouse.metadata.commit_summaries import FILL_KEY, SUMMARY_KEYS
from vde_dagster.lakehouse.metadata.table_metadata import (
    ancestors,
    current_schema,
    head_of,
    history,
)
from vde_dagster.lakehouse.metadata.types import iceberg_to_spark
from vde_dagster.lakehouse.publishing.commit import Change, change_at_last
from vde_dagster.lakehouse.publishing.new_table import make_branch
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.spark.session.connect import is_remote
from vde_dagster.spark.session.failures import has_java_cause
from vde_dagster.spark.tables.columns import spark_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


CONFLICTS = ("ValidationException", "CommitFailedException")
_CATALOGS: WeakKeyDictionary[SparkSession, dict[str, Any]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Commit:
    """An Iceberg commit of a fill, with the numbers of rows and bytes that it added."""

    snapshot_id: int
    added_records: int
    added_bytes: int


class IcebergTable:
    """A table with its metadata as of the last `refresh`. Each change is one atomic commit."""

    def __init__(
        self, session: SparkSession, catalog: str, ref: TableRef, lakehouse: Lakehouse
    ) -> None:
        self.session = session
        self.quoted = ref.quoted(catalog)
        self._catalog = catalog
        self._lakehouse = lakehouse
        self.ref = ref
        self._metadata: dict[str, Any] = {}
        self.refresh()

    def refresh(self) -> None:
        self._metadata = self._lakehouse.table_metadata(self.ref)

    def types(self) -> dict[str, str]:
        """Return Spark SQL types by column, in the table's order."""
        kinds = {str(one["name"]): one["type"] for one in current_schema(self._metadata)["fields"]}
        if all(isinstance(kind, str) for kind in kinds.values()):
            return {name: iceberg_to_spark(kind).lower() for name, kind in kinds.items()}
        # Only Spark writes nested types in the form that it can read.
        fields = self.session.table(self.quoted).schema.fields
        return {field.name: spark_type(field.dataType) for field in fields}

    @property
    def properties(self) -> dict[str, str]:
        return dict(self._metadata.get("properties", {}))

    def partition_fields(self) -> list[tuple[str, str, str]]:
        """Return the name, transform and column of each partition field, in Iceberg's terms."""
        specs = {one["spec-id"]: one["fields"] for one in self._metadata["partition-specs"]}
        columns = {one["id"]: str(one["name"]) for one in current_schema(self._metadata)["fields"]}
        return [
            (str(field["name"]), str(field["transform"]), columns[field["source-id"]])
            for field in specs[self._metadata["default-spec-id"]]
            if field["transform"] != "void"
        ]

    def head(self, branch: str | None) -> int | None:
        """Return the id of a branch's newest snapshot, or None for a missing or empty branch."""
        return head_of(self._metadata, branch)

    def has_branch(self, branch: str) -> bool:
        return branch in self._metadata.get("refs", {})

    def ensure_branch(self, branch: str, of: str | None = None) -> None:
        """Create a branch if it is missing, at the head of the branch `of` or of `main`."""
        if not self.has_branch(branch):
            self.branch_at(branch, of)

    def branch_at(self, name: str, branch: str | None) -> None:
        """Create the branch `name` at the head of another branch, unless `name` exists."""
        self._metadata = make_branch(self._lakehouse, self.ref, name, branch)

    def drop_branch(self, branch: str) -> None:
        self._change(lambda now: remove_branches(now, [branch]))

    def parent(self, snapshot_id: int | None) -> int | None:
        """Return the id of a snapshot's parent, or None for the first snapshot."""
        found = next(history(self._metadata, snapshot_id), {})
        parent = found.get("parent-snapshot-id")
        return int(parent) if parent is not None else None

    def roll_back(self, snapshot_id: int) -> None:
        """Set `main` back to a snapshot's parent, unless another writer committed since."""

        def take_back(now: dict[str, Any]) -> Updates:
            if head_of(now) != snapshot_id:
                return ()
            parent = next(history(now, snapshot_id)).get("parent-snapshot-id")
            return move_back(now, parent, str(self.ref))

        self._change(take_back)

    def fast_forward(self, branch: str | None, to: str) -> bool:
        """Move a branch to the head of the branch `to`. Return False if they have diverged."""
        try:
            self._change(lambda now: fast_forward(now, to, str(self.ref), into=branch, ends=False))
        except PointerMovedError:
            raise
        except ConflictError:
            return False
        return True

    def cherry_pick(self, source: str, onto: str) -> int | None:
        """Apply the only commit of a branch to another branch: add and remove the same files.

        Args:
            source: The branch with the commit. It was created from `onto`, which may have moved.
            onto: The branch to change. No other writer may change it meanwhile.

        Returns:
            The id of the new commit, or None if files cannot be picked from the commit.

        Raises:
            UnknownOutcomeError: The commit succeeded but cannot be found.
        """
        self.refresh()
        picked, head = self.head(source), self.head(onto)
        # The other branch has no newer commit.
        if head in ancestors(self._metadata, picked):
            return picked if self.fast_forward(onto, source) else None
        parent = self.parent(picked)
        if parent is None or parent not in ancestors(self._metadata, head):
            return None
        if is_remote(self.session):
            return None  # no statement commits selected files
        summary = self.summary(picked or 0)
        ours = {key: summary[key] for key in SUMMARY_KEYS if key in summary}
        table = _java_table(self.session, self._catalog, self.ref)
        if not _pick_files(table, table.snapshot(source), onto, ours):
            return None
        self.refresh()
        commit = self.find_commit(onto, ours)
        if commit is None:
            raise UnknownOutcomeError(
                f"the commit to the branch {onto} of {self.ref} cannot be found",
                hint="apply the plan again, which looks for the commit first: "
                "vde apply ENV --plan ID",
            )
        return commit.snapshot_id

    def was_filled(self, branch: str | None) -> bool:
        """Return whether a branch (or `main`) ever had rows, or the commit of a fill."""
        line = history(self._metadata, self.head(branch))
        summaries = (snapshot.get("summary", {}) for snapshot in line)
        return any(
            FILL_KEY in found or int(found.get("total-records") or 0) > 0 for found in summaries
        )

    def find_commit(
        self, branch: str | None, summary: Mapping[str, str], limit: int = 1000
    ) -> Commit | None:
        """Return the newest commit of a branch that has all given properties in its summary."""
        line = history(self._metadata, self.head(branch))
        for _, snapshot in zip(range(limit), line, strict=False):
            found = snapshot.get("summary", {})
            if all(found.get(key) == value for key, value in summary.items()):
                return Commit(
                    int(snapshot["snapshot-id"]),
                    int(found.get("added-records") or 0),
                    int(found.get("added-files-size") or 0),
                )
        return None

    def summary(self, snapshot_id: int) -> dict[str, str]:
        return dict(next(history(self._metadata, snapshot_id)).get("summary", {}))

    def _change(self, change: Change) -> None:
        self._metadata = change_at_last(self._lakehouse, self.ref, change, "spark.branch")


def _pick_files(table: Any, picked: Any, onto: str, properties: Mapping[str, str]) -> bool:
    """Commit the files of the commit `picked` to a branch. Return False if this is impossible."""
    from py4j.protocol import Py4JJavaError

    io = table.io()
    if _to_list(picked.addedDeleteFiles(io)) or _to_list(picked.removedDeleteFiles(io)):
        return False
    # Iceberg's own cherry-pick supports only appends and replaced partitions.
    change = table.newOverwrite().toBranch(onto)
    for file in _to_list(picked.addedDataFiles(io)):
        change.addFile(file)
    removed = _to_list(picked.removedDataFiles(io))
    for file in removed:
        change.deleteFile(file)
    if removed:
        # A file that no longer exists was replaced by another commit.
        change.validateFromSnapshot(picked.parentId()).validateNoConflictingDeletes()
    for key, value in properties.items():
        change.set(key, value)
    try:
        change.commit()
    except Py4JJavaError as error:
        if has_java_cause(error, "ValidationException"):
            return False
        raise
    return True


def _java_table(session: SparkSession, catalog: str, ref: TableRef) -> Any:
    from py4j.java_gateway import JavaClass

    gateway: Any = session.sparkContext._gateway
    # Through `session._jvm`, every part of a class's name is a call to the JVM.
    string, identifiers = (
        JavaClass(name, gateway._gateway_client)
        for name in ("java.lang.String", "org.apache.iceberg.catalog.TableIdentifier")
    )
    names = gateway.new_array(string, 2)
    names[0], names[1] = ref.namespace, ref.name
    identifier = identifiers.of(names)
    return iceberg_catalog(session, catalog).loadTable(identifier)


def iceberg_catalog(session: SparkSession, catalog: str) -> Any:
    """Return the Java `Catalog` that a session's Spark catalog wraps."""
    known = _CATALOGS.setdefault(session, {})
    if catalog not in known:
        jvm_session: Any = session._jsparkSession
        manager = jvm_session.sessionState().catalogManager()
        known[catalog] = manager.catalog(catalog).icebergCatalog()
    return known[catalog]


def _to_list(files: Any) -> list[Any]:
    found, iterator = [], files.iterator()
    while iterator.hasNext():
        found.append(iterator.next())
    return found
