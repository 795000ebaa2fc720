from __future__ import annotations

from dataclasses import dataclass

from vde_dagster.api.values import PluginSettings


@dataclass(frozen=True, slots=True)
class PoliciesSettings(PluginSettings):
    """The table `[tool.vde.policies]`: paths of YAML files with rules, relative to the project."""

    files: tuple[str, ...] = ("policies.yaml",)
