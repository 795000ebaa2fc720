"""The workspace as a Dagster resource: opened once a run, starting Spark only when needed."""

# Dagster reads the annotations of its resources, so they are not postponed here.
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field, PrivateAttr

from vde_dagster.orchestration.events.consumer import origin_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from vde_dagster.execution.workspace import Workspace


_NOT_GIVEN: Any = None


_LENT: dict[str, "Workspace"] = {}
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
    """Gives steps the project's workspace."""

    project_root: str = Field(description="The project's folder, absolute.")
    spark: dg.ResourceDependency[Any] = Field(
        default=_NOT_GIVEN,
        description="A resource of dagster-pyspark whose session is joined; by default Spark is "
        "started as the project's settings say.",
    )
    _workspace: Any = PrivateAttr(default=None)
    _own: bool = PrivateAttr(default=False)
    _origin: str = PrivateAttr(default="")

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Note whose work this is: what a run does it tells Dagster itself."""
        if context.run_id is not None and context.instance is not None:
            self._origin = origin_of(context.instance, context.run_id)

    def get(self) -> "Workspace":
        """Return the workspace; the first call of a run opens it, nothing starts a JVM yet."""
        if self._workspace is None:
            from vde_dagster.execution.workspace import Workspace

            root = Path(self.project_root).resolve()
            lent = _LENT.get(str(root))
            self._own = lent is None
            self._workspace = lent or Workspace.open(root, join=self._session_to_join())
            self._workspace.work_for(self._origin)
        workspace: Workspace = self._workspace
        return workspace

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Close what this run opened."""
        if self._workspace is not None:
            self._workspace.work_for("")
        if self._workspace is not None and self._own:
            self._workspace.close()
        self._workspace = None

    def _session_to_join(self) -> "Callable[[], SparkSession] | None":
        resource = self.spark
        return None if resource is None else lambda: resource.spark_session


def workspace_resource(root: Path, *, spark: str | None = None) -> dg.ResourceDefinition:
    """Return the resource that is a `WorkspaceResource` in runs.

    Nothing of it can be chosen, so the launchpad's forms leave it out: there the fields of a
    `ConfigurableResource` stand in every run's configuration.

    Args:
        spark: The key of a resource of dagster-pyspark whose session is joined.
    """

    @dg.resource(
        config_schema={},
        required_resource_keys={spark} if spark else set(),
        description="The project: its files, its state, and Spark when that is needed.",
    )
    def vde(context: dg.InitResourceContext) -> Iterator[WorkspaceResource]:
        joined = {"spark": getattr(context.resources, spark)} if spark else {}
        opened = WorkspaceResource(project_root=str(root), **joined)
        opened.setup_for_execution(context)
        try:
            yield opened
        finally:
            opened.teardown_after_execution(context)

    return vde
