"""The workspace as a Dagster resource: opened once a run, starting Spark only when needed."""

# Dagster reads the annotations of its resources, so they are not postponed here.
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field, PrivateAttr

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from vde_dagster.execution.workspace import Workspace


_NOT_GIVEN: Any = None


@dataclass
class _Opened:
    workspace: "Workspace"
    users: int = 0


_LENT: dict[str, "Workspace"] = {}
_OPENED: dict[tuple[str, str | None], _Opened] = {}
"""By project and run: a run has several resources that work on one project."""
_LOCK = threading.Lock()


@contextmanager
def lend(workspace: "Workspace") -> Iterator[None]:
    """Let runs in this process use an open workspace instead of opening one of their own.

    A caller that goes on working after the run keeps its Spark session.
    """
    key = str(workspace.root)
    with _LOCK:
        before = _LENT.get(key)
        _LENT[key] = workspace
    try:
        yield
    finally:
        with _LOCK:
            if before is None:
                del _LENT[key]
            else:
                _LENT[key] = before


class WorkspaceResource(dg.ConfigurableResource[Any]):
    """Gives steps the project's workspace, one and the same to all steps of a run."""

    project_root: str = Field(description="The project's folder, absolute.")
    spark: dg.ResourceDependency[Any] = Field(
        default=_NOT_GIVEN,
        description="A resource of dagster-pyspark whose session is joined; by default Spark is "
        "started as the project's settings say.",
    )
    _workspace: Any = PrivateAttr(default=None)
    _run: Any = PrivateAttr(default=None)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Remember the run; nothing is opened yet."""
        self._run = context.run.run_id if context.run else None

    def get(self) -> "Workspace":
        """Return the workspace; the first call of a run opens it, nothing starts a JVM yet."""
        if self._workspace is None:
            self._workspace = self._lent() or self._open()
        workspace: Workspace = self._workspace
        return workspace

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Close what this run opened, with the last of its resources."""
        workspace, self._workspace = self._workspace, None
        with _LOCK:
            opened = _OPENED.get(self._key)
            if opened is None or opened.workspace is not workspace:
                return
            opened.users -= 1
            if opened.users:
                return
            del _OPENED[self._key]
        opened.workspace.close()

    @property
    def _root(self) -> Path:
        return Path(self.project_root).resolve()

    @property
    def _key(self) -> tuple[str, str | None]:
        return str(self._root), self._run

    def _lent(self) -> "Workspace | None":
        return _LENT.get(str(self._root))

    def _open(self) -> "Workspace":
        from vde_dagster.execution.workspace import Workspace

        with _LOCK:
            opened = _OPENED.get(self._key)
            if opened is None:
                workspace = Workspace.open(self._root, join=self._session_to_join())
                opened = _OPENED[self._key] = _Opened(workspace)
            opened.users += 1
        return opened.workspace

    def _session_to_join(self) -> "Callable[[], SparkSession] | None":
        resource = self.spark
        return None if resource is None else lambda: resource.spark_session
