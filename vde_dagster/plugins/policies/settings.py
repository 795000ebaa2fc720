"""The table `[tool.vde.policies]`: the files with a project's rules."""

from __future__ import annotations

from dataclasses import dataclass

from vde_dagster.api.values import PluginSettings


@dataclass(frozen=True, slots=True)
class PoliciesSettings(PluginSettings):
    """The files with a project's rules for plans.

    Args:
        files: Paths of YAML files, relative to the project's folder.
    """

    files: tuple[str, ...] = ("policies.yaml",)
