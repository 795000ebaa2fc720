"""The workspace as a Dagster resource: opened once a run, starting Spark only when needed."""

# Dagster reads the annotations of its resources, so they are not postponed here.
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field, PrivateAttr

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.events.records import origin_of

_NOT_GIVEN: Any = None
_LENT: dict[Path, Workspace] = {}


@contextmanager
def lend(workspace: Workspace) -> Iterator[None]:
    """Let runs in this process use an open workspace, whose Spark session goes on after them."""
    _LENT[workspace.root] = workspace
    try:
        yield
    finally:
        del _LENT[workspace.root]


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

    def get(self) -> Workspace:
        """Return the workspace; the first call of a run opens it, nothing starts a JVM yet."""
        if self._workspace is None:
            root, spark = Path(self.project_root).resolve(), self.spark
            join = None if spark is None else lambda: spark.spark_session
            lent = _LENT.get(root)
            self._own = lent is None
            self._workspace = lent or Workspace.open(root, join=join)
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


def workspace_resource(root: Path, *, spark: str | None = None) -> dg.ResourceDefinition:
    """Return the resource that is a `WorkspaceResource` in runs.

    The fields of a `ConfigurableResource` would stand in every form of the launchpad.

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
        with opened.yield_for_execution(context):
            yield opened

    return vde
