"""Names that Dagster shows and that other modules agree on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from vde_dagster.project.settings import Settings

SNAPSHOT = "snapshot"
"""The dimension of versions; it sorts before `time`, which decides the page's first column."""
TIME = "time"

POOL = "vde_spark"
"""The same for every project: it is a machine that has room for one Spark session."""
BREAKING_CHECK = "no_breaking_changes"
QUERIES_CHECK = "queries_analyse"
TESTS_CHECK = "unit_tests_pass"

PUBLISHED = "published"
"""Label on the page of a plan that was published: by whom, and when."""
EVALUATION = "vde/evaluation"
"""What an event of a plan, a check or an observation tells, by which it is known again."""
PLAN_TAG = "vde/plan"
ENVIRONMENT_TAG = "vde/environment"
VERSION_TAG = "vde/version"
PROJECT_TAG = "vde/project"


def known_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata without what is None."""
    return {name: value for name, value in facts.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one project's assets, partitions, jobs, sensors, schedules and resources.

    Asset keys, ops and resources are unique in a code location, partitions and run tags in a whole
    Dagster instance: the setting `dagster.prefix` tells projects apart that share one.
    """

    prefix: str = ""

    @classmethod
    def of(cls, settings: Settings) -> Names:
        """Return the names that a project's settings ask for."""
        return cls(settings.dagster.prefix)

    def of_asset(self, *path: str) -> dg.AssetKey:
        """Return an asset key of the project, such as `schema / model`."""
        return dg.AssetKey([self.prefix, *path] if self.prefix else [*path])

    def named(self, name: str) -> str:
        """Return the project's own form of a name of a job, op, sensor, group or resource."""
        return f"{self.prefix}_{name}" if self.prefix else name

    @property
    def plan_key(self) -> dg.AssetKey:
        """The asset of plans."""
        return self.of_asset("vde", "plan")

    @property
    def apply_key(self) -> dg.AssetKey:
        """The asset of approvals."""
        return self.of_asset("vde", "apply")

    @property
    def reject_key(self) -> dg.AssetKey:
        """The asset of rejections."""
        return self.of_asset("vde", "reject")

    @property
    def environment_key(self) -> dg.AssetKey:
        """The asset of environments."""
        return self.of_asset("vde", "environment")

    @property
    def plans(self) -> dg.DynamicPartitionsDefinition:
        """The plans, by their ids."""
        return dg.DynamicPartitionsDefinition(name=self.named("vde_plans"))

    @property
    def rejections(self) -> dg.DynamicPartitionsDefinition:
        """The plans that can be rejected, and those that were, by their ids."""
        return dg.DynamicPartitionsDefinition(name=self.named("vde_rejections"))

    @property
    def environments(self) -> dg.DynamicPartitionsDefinition:
        """The environments, by their names."""
        return dg.DynamicPartitionsDefinition(name=self.named("vde_environments"))

    @property
    def group(self) -> str:
        """The group of plans, approvals and environments."""
        return self.named("vde")

    @property
    def resource(self) -> str:
        """The resource that gives steps the project's workspace."""
        return self.named("vde")

    @property
    def tags(self) -> dict[str, str]:
        """The tags of every run of the project's jobs."""
        return {PROJECT_TAG: self.prefix} if self.prefix else {}


SHORT = Names()
"""The names of a project that stands alone."""
