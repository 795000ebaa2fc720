"""Iceberg's own Java API, for what needs no Spark job: schemas, branches, commit summaries."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from vde_dagster.errors import ExecutionError, UnknownOutcomeError
from vde_dagster.lakehouse.metadata.fill_summaries import FILL_KEY, SUMMARY_KEYS
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.spark.session.failures import has_java_cause
from vde_dagster.spark.tables.columns import spark_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MAIN = "main"
CONFLICTS = ("ValidationException", "CommitFailedException")
_ATTEMPTS = 20
_CATALOGS: WeakKeyDictionary[SparkSession, dict[str, Any]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Commit:
    """An Iceberg snapshot as far as a fill reports it.

    Args:
        added_records: Rows in the data files that it added.
        added_bytes: Bytes of the files that it added.
    """

    snapshot_id: int
    added_records: int
    added_bytes: int


class IcebergTable:
    """A table as it was when it was loaded; changes through it are atomic commits of their own."""

    def __init__(self, session: SparkSession, handle: Any, ref: TableRef) -> None:
        self._session = session
        self._handle = handle
        self.ref = ref

    def refresh(self) -> None:
        """Read the table's newest metadata."""
        self._handle.refresh()

    def types(self) -> dict[str, str]:
        """Return the columns' Spark SQL types by name, in order."""
        from pyspark.sql.types import StructType

        converter = java_class(self._session, "org.apache.iceberg.spark.SparkSchemaUtil")
        schema = StructType.fromJson(_json(converter.convert(self._handle.schema()).json()))
        return {field.name: spark_type(field.dataType) for field in schema.fields}

    def partition_fields(self) -> list[tuple[str, str, str]]:
        """Return (name, transform, column) of the current partitioning, as Iceberg calls them."""
        schema = self._handle.schema()
        return [
            (
                str(field.name()),
                str(field.transform().toString()),
                str(schema.findColumnName(field.sourceId())),
            )
            for field in self._handle.spec().fields()
            if str(field.transform().toString()) != "void"
        ]

    def property(self, name: str) -> str | None:
        """Return a table property."""
        value: str | None = self._handle.properties().get(name)
        return value

    def head(self, branch: str | None) -> int | None:
        """Return the id of a branch's newest snapshot; None when it is missing or empty."""
        snapshot = self._snapshot(branch)
        return int(snapshot.snapshotId()) if snapshot is not None else None

    def has_branch(self, branch: str) -> bool:
        """Say whether a branch exists."""
        return bool(self._handle.refs().containsKey(branch))

    def ensure_branch(self, branch: str, of: str | None = None) -> None:
        """Create a branch at the head of `main`, or of another one, unless it exists.

        An empty table gets an empty start.
        """

        def create() -> None:
            if not self.has_branch(branch):
                self._create_branch(branch, self.head(of))

        self._retried(create, just_loaded=True)

    def branch_at(self, name: str, branch: str | None) -> None:
        """Create a branch at the head of another one."""

        self._retried(lambda: self._create_branch(name, self.head(branch)))

    def drop_branch(self, branch: str) -> None:
        """Remove a branch if it exists."""

        def drop() -> None:
            if self.has_branch(branch):
                self._handle.manageSnapshots().removeBranch(branch).commit()

        self._retried(drop)

    def parent(self, snapshot_id: int | None) -> int | None:
        """Return the snapshot that a snapshot was committed on, or None for the first one."""
        if snapshot_id is None:
            return None
        parent = self._handle.snapshot(snapshot_id).parentId()
        return int(parent) if parent is not None else None

    def roll_back(self, snapshot_id: int) -> None:
        """Take `main` back to what a snapshot was committed on, unless others wrote since."""

        def take_back() -> None:
            before = self.parent(snapshot_id)
            if self.head(None) != snapshot_id:
                return
            if before is None:
                self._handle.newDelete().deleteFromRowFilter(self._always()).commit()
            else:
                self._handle.manageSnapshots().replaceBranch(MAIN, before).commit()

        self._retried(take_back)

    def _always(self) -> Any:
        return java_class(self._session, "org.apache.iceberg.expressions.Expressions").alwaysTrue()

    def fast_forward(self, branch: str | None, to: str) -> bool:
        """Move a branch forward to the head of another; False when it has moved since.

        Iceberg checks that the old head is an ancestor, and its commit fails when anybody else
        committed in between.
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import IllegalArgumentException

        self.refresh()
        try:
            self._handle.manageSnapshots().fastForwardBranch(branch or MAIN, to).commit()
        except (Py4JJavaError, IllegalArgumentException) as error:
            moved = "is not an ancestor" in str(error)
            if moved or has_java_cause(error, *CONFLICTS):
                return False
            raise
        return True

    def cherry_pick(self, source: str, onto: str) -> int | None:
        """Commit to a branch the files that the only commit of another one added and removed.

        Iceberg's own cherry-pick takes appends and whole partitions only. The commit has the
        other's properties of ours in its summary. Where nothing else was committed since, the
        branch is moved forward.

        Args:
            source: The branch with that commit, which was made at a head of the other.
            onto: The branch that gets it, and that nobody else writes meanwhile.

        Returns:
            The commit; None, and nothing changes, where it cannot be told apart from what was
            committed since.

        Raises:
            UnknownOutcomeError: The commit ended well and is not to be found.
        """
        from py4j.protocol import Py4JJavaError

        self.refresh()
        picked, head = self._snapshot(source), self._snapshot(onto)
        util = java_class(self._session, "org.apache.iceberg.util.SnapshotUtil")
        if util.isAncestorOf(self._handle, picked.snapshotId(), head.snapshotId()):
            return int(picked.snapshotId()) if self.fast_forward(onto, source) else None
        parent = picked.parentId()
        if parent is None or not util.isAncestorOf(self._handle, head.snapshotId(), parent):
            return None
        io = self._handle.io()
        if _listed(picked.addedDeleteFiles(io)) or _listed(picked.removedDeleteFiles(io)):
            return None
        change = self._handle.newOverwrite().toBranch(onto)
        for file in _listed(picked.addedDataFiles(io)):
            change.addFile(file)
        removed = _listed(picked.removedDataFiles(io))
        for file in removed:
            change.deleteFile(file)
        if removed:
            # A file that is not there any more was replaced by another commit.
            change.validateFromSnapshot(parent).validateNoConflictingDeletes()
        summary = picked.summary()
        ours = {key: summary.get(key) for key in SUMMARY_KEYS if summary.containsKey(key)}
        for key, value in ours.items():
            change.set(key, value)
        try:
            change.commit()
        except Py4JJavaError as error:
            if has_java_cause(error, "ValidationException"):
                return None
            raise
        self.refresh()
        commit = self.find_commit(onto, ours)
        if commit is None:
            raise UnknownOutcomeError(
                f"the commit to the branch {onto} of {self.ref} cannot be found",
                hint="apply the plan again: it looks for the commit first",
            )
        return commit.snapshot_id

    def was_filled(self, branch: str | None) -> bool:
        """Say whether a branch (or `main`) holds rows, or a commit of a fill, even an empty one."""
        snapshot = self._snapshot(branch)
        while snapshot is not None:
            found = snapshot.summary()
            if found.get(FILL_KEY) is not None or int(found.get("total-records") or 0) > 0:
                return True
            parent = snapshot.parentId()
            snapshot = self._handle.snapshot(parent) if parent is not None else None
        return False

    def find_commit(
        self, branch: str | None, summary: Mapping[str, str], limit: int = 1000
    ) -> Commit | None:
        """Return the newest commit of a branch whose summary holds all given properties.

        Args:
            branch: The branch, or None for `main`.
            summary: Properties that must be equal.
            limit: How many commits to look back at most.
        """
        snapshot = self._snapshot(branch)
        for _ in range(limit):
            if snapshot is None:
                return None
            found = snapshot.summary()
            if all(found.get(key) == value for key, value in summary.items()):
                return Commit(
                    int(snapshot.snapshotId()),
                    int(found.get("added-records") or 0),
                    int(found.get("added-files-size") or 0),
                )
            parent = snapshot.parentId()
            snapshot = self._handle.snapshot(parent) if parent is not None else None
        return None

    def summary(self, snapshot_id: int) -> dict[str, str]:
        """Return a commit's summary."""
        found = self._handle.snapshot(snapshot_id).summary()
        return {str(key): str(found[key]) for key in found}

    def _create_branch(self, name: str, head: int | None) -> None:
        manager = self._handle.manageSnapshots()
        if head is None:
            manager.createBranch(name).commit()
        else:
            manager.createBranch(name, head).commit()

    def _snapshot(self, branch: str | None) -> Any:
        if branch is None or branch == MAIN:
            return self._handle.currentSnapshot()
        return self._handle.snapshot(branch)

    def _retried(self, change: Callable[[], None], *, just_loaded: bool = False) -> None:
        """Run a change of branches again when somebody else committed first."""
        from py4j.protocol import Py4JJavaError

        for attempt in range(_ATTEMPTS):
            if attempt or not just_loaded:
                self.refresh()
            try:
                return change()
            except Py4JJavaError as error:
                if attempt == _ATTEMPTS - 1 or not has_java_cause(error, *CONFLICTS):
                    raise
                time.sleep(0.05 * (attempt + 1))


def load_table(session: SparkSession, catalog: str, ref: TableRef) -> IcebergTable:
    """Load a table's metadata from the catalog.

    Raises:
        ExecutionError: There is no such table.
    """
    from py4j.protocol import Py4JJavaError

    try:
        handle = iceberg_catalog(session, catalog).loadTable(_identifier(session, ref))
    except Py4JJavaError as error:
        if has_java_cause(error, "NoSuchTableException"):
            raise ExecutionError(
                f"the physical table {ref} does not exist",
                hint="it was dropped since it was recorded; plan and apply again",
            ) from error
        raise
    return IcebergTable(session, handle, ref)


def _identifier(session: SparkSession, ref: TableRef) -> Any:
    gateway: Any = session.sparkContext._gateway
    names = gateway.new_array(java_class(session, "java.lang.String"), 2)
    names[0], names[1] = ref.namespace, ref.name
    return java_class(session, "org.apache.iceberg.catalog.TableIdentifier").of(names)


def iceberg_catalog(session: SparkSession, catalog: str) -> Any:
    """Return the Java `Catalog` that a session's Spark catalog wraps."""
    known = _CATALOGS.setdefault(session, {})
    if catalog not in known:
        jvm_session: Any = session._jsparkSession
        manager = jvm_session.sessionState().catalogManager()
        known[catalog] = manager.catalog(catalog).icebergCatalog()
    return known[catalog]


def java_class(session: SparkSession, name: str) -> Any:
    """Return a Java class; by `session._jvm`, every part of its name is a question to the JVM."""
    from py4j.java_gateway import JavaClass

    gateway: Any = session.sparkContext._gateway
    return JavaClass(name, gateway._gateway_client)


def _listed(files: Any) -> list[Any]:
    """Return the items of a Java `Iterable`."""
    found, iterator = [], files.iterator()
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def _json(text: str) -> Any:
    import json

    return json.loads(text)
