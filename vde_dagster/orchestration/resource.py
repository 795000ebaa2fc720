"""Workspace as a Dagster resource: opened once per run; Spark starts only when needed."""

# Dagster evaluates the annotations of resources, so they are not postponed here.
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field, PrivateAttr

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.events.records import run_origin

_NOT_GIVEN: Any = None
_LENT: dict[Path, Workspace] = {}


@contextmanager
def lend(workspace: Workspace) -> Iterator[None]:
    """Let runs in this process use an open workspace while the block runs."""
    # The workspace's Spark session outlives the runs.
    _LENT[workspace.root] = workspace
    try:
        yield
    finally:
        del _LENT[workspace.root]


class WorkspaceResource(dg.ConfigurableResource[Any]):
    """Resource that gives steps the project's workspace."""

    project_root: str = Field(description="Absolute path of the project's folder.")
    spark: dg.ResourceDependency[Any] = Field(
        default=_NOT_GIVEN,
        description="Resource of dagster-pyspark whose session is used; by default the project's "
        "settings start Spark.",
    )
    _workspace: Any = PrivateAttr(default=None)
    _own: bool = PrivateAttr(default=False)
    _origin: str = PrivateAttr(default="")

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        if context.run_id is not None and context.instance is not None:
            # The run itself writes the events of its work.
            self._origin = run_origin(context.instance, context.run_id)

    def get(self) -> Workspace:
        """Return the run's workspace, opened by the first call."""
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
        if self._workspace is not None:
            self._workspace.work_for("")
        if self._workspace is not None and self._own:
            self._workspace.close()
        self._workspace = None


def workspace_resource(root: Path, *, spark: str | None = None) -> dg.ResourceDefinition:
    # The fields of a `ConfigurableResource` would appear in every form of the launchpad.
    @dg.resource(
        config_schema={},
        required_resource_keys={spark} if spark else set(),
        description="The project: its files, its state, and Spark when needed.",
    )
    def vde(context: dg.InitResourceContext) -> Iterator[WorkspaceResource]:
        joined = {"spark": getattr(context.resources, spark)} if spark else {}
        opened = WorkspaceResource(project_root=str(root), **joined)
        with opened.yield_for_execution(context):
            yield opened

    return vde
