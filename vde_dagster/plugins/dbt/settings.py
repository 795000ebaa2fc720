"""The table `[tool.vde.dbt]`: which dbt compiles a project, and how."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vde_dagster.project.settings import PluginSettings


@dataclass(frozen=True, slots=True)
class DbtSettings(PluginSettings):
    """How a dbt project is compiled when its files changed.

    Args:
        compile: Whether it is; otherwise `target/manifest.json` is read as it is.
        executable: dbt in an environment of its own, from the project's folder or by its name;
            empty for the one that is installed beside this package, if there is one.
        target: The target of its profile; empty for the profile's own.
        profiles_dir: The folder of `profiles.yml`, from the project's folder; empty for dbt's own.
        vars: Variables, as `--vars` has them.
        grants: Whether rights are granted when a model is published, by the statements GRANT and
            REVOKE, which Spark has with some catalogs' extensions alone.
        introspect: Whether introspective macros have answers meanwhile: of a Spark target from
            what production shows here, which is the default, of another one from its warehouse.
    """

    compile: bool = True
    executable: str = ""
    target: str = ""
    profiles_dir: str = ""
    vars: dict[str, Any] = field(default_factory=dict)
    introspect: bool | None = None
    grants: bool = False
