"""The table `[tool.vde.ci]`: where pull requests are told, and what their comments have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from vde_dagster.planning.environments.environment import environment_name
from vde_dagster.project.settings import PluginSettings

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace

FORGES = ("github", "gitlab", "git")


@dataclass(frozen=True, slots=True)
class CiSettings(PluginSettings):
    """Pull requests of a project.

    Args:
        forge: `github`, `gitlab` or `git`; by default what the job's variables say, else `git`.
        login: The user that the token is of, where a token may not ask for that.
        remote: The remote of Git that comments and checks are pushed to, with `git`.
        prefix: What stands before a pull request's number in its environment's name.
        samples: Rows of each kind that a comment shows of a model; 0 shows none.
        dagster_url: Where people open Dagster, for links.
        docs_url: Where an environment's documentation is; `{environment}` becomes its name.
    """

    forge: str = ""
    login: str = ""
    remote: str = "origin"
    prefix: str = "pr_"
    samples: int = 10
    dagster_url: str = ""
    docs_url: str = ""

    def mistakes(self) -> Iterator[tuple[str, str, str]]:
        """Say what is no forge, no name, no number of rows or no URL."""
        if self.forge and self.forge not in FORGES:
            yield "forge", "is not known", f"write one of {', '.join(FORGES)}"
        if not self.prefix or not self.prefix.replace("_", "a").isalnum():
            yield "prefix", "begins no environment's name", "write letters, digits and _: pr_"
        if self.samples < 0:
            yield "samples", "is negative", "write 0 for none"
        if not self.remote or self.remote.startswith("-"):
            yield "remote", "is no remote of Git", "write origin"
        for key in ("dagster_url", "docs_url"):
            if (url := getattr(self, key)) and not url.startswith(("http://", "https://")):
                yield key, "is no URL", "write https://…"

    def environment(self, number: int) -> str:
        """Name the environment of a pull request."""
        return environment_name(f"{self.prefix}{number}")

    def links(self, environment: str, prefix: str | None) -> str:
        """Write links to an environment in Dagster and to its documentation, as Markdown.

        Args:
            prefix: That of the project's assets.
        """
        found = []
        if self.dagster_url:
            path = "/".join(map(quote, [*([prefix] if prefix else []), "vde", "environment"]))
            url = f"{self.dagster_url.rstrip('/')}/assets/{path}"
            found.append(f"[Dagster]({url}?view=partitions&partition={quote(environment)})")
        if self.docs_url:
            url = self.docs_url.replace("{environment}", quote(environment))
            found.append(f"[documentation]({url})")
        return " · ".join(found)


def ci_settings(workspace: Workspace) -> CiSettings:
    """Return the project's, or those of a project that says nothing."""
    return CiSettings(**workspace.settings.plugins.get("ci", {}))
