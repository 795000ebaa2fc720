from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vde_dagster.api.values import PluginSettings


@dataclass(frozen=True, slots=True)
class DbtSettings(PluginSettings):
    """The table `[tool.vde.dbt]`: how a dbt project is compiled when its files changed.

    Args:
        compile: Whether dbt compiles; otherwise `target/manifest.json` is read.
        executable: Path or name of a dbt in a separate Python environment, relative to the
            project's folder; empty for a dbt in this package's Python environment.
        target: Target of the profile; empty for the default target.
        profiles_dir: Folder of `profiles.yml`, relative to the project's folder; empty for dbt's
            default.
        vars: Variables, as for `--vars`.
        grants: Whether GRANT and REVOKE run when a model is published; Spark has these statements
            only with extensions of some catalogs.
        introspect: Whether introspective calls get results; by default only for a Spark target.
            Results for a Spark target come from production's views and from sources, results for
            other targets from the warehouse.
    """

    compile: bool = True
    executable: str = ""
    target: str = ""
    profiles_dir: str = ""
    vars: dict[str, Any] = field(default_factory=dict)
    introspect: bool | None = None
    grants: bool = False
