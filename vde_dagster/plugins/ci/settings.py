from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from vde_dagster.api.plans import environment_name
from vde_dagster.api.values import PluginSettings

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace

FORGES = ("github", "gitlab", "git")


@dataclass(frozen=True, slots=True)
class CiSettings(PluginSettings):
    """The table `[tool.vde.ci]`: the host of pull requests, and the content of their comments.

    Args:
        forge: `github`, `gitlab` or `git`; by default the forge that runs the job, or `git` if no
            forge does.
        login: The name of the token's user; needed if the token has no right to read this name,
            unless the token belongs to a GitHub workflow.
        remote: The Git remote of the base branch. The forge `git` also pushes comments and checks
            to it.
        prefix: Prefix of a pull request's number in its environment's name.
        samples: Maximum number of rows in each sample of a comment; 0 shows none. A model has one
            sample of changed, one of added and one of removed rows.
        dagster_url: The URL of Dagster, for links.
        docs_url: URL of an environment's documentation; `{environment}` becomes its name.
    """

    forge: str = ""
    login: str = ""
    remote: str = "origin"
    prefix: str = "pr_"
    samples: int = 10
    dagster_url: str = ""
    docs_url: str = ""

    def mistakes(self) -> Iterator[tuple[str, str, str]]:
        if self.forge and self.forge not in FORGES:
            yield "forge", "is not known", f"write one of {', '.join(FORGES)}"
        if not self.prefix or not self.prefix.replace("_", "a").isalnum():
            yield "prefix", "is not valid in a name", "use letters, digits and _: pr_"
        if self.samples < 0:
            yield "samples", "is negative", "write 0 for none"
        if not self.remote or self.remote.startswith("-"):
            yield "remote", "is not a Git remote", "write origin"
        for key in ("dagster_url", "docs_url"):
            if (url := getattr(self, key)) and not url.startswith(("http://", "https://")):
                yield key, "is not a URL", "write https://…"

    def environment(self, number: int) -> str:
        """Return the name of a pull request's environment, such as `pr_123`."""
        return environment_name(f"{self.prefix}{number}")

    def links(self, environment: str, prefix: str | None) -> str:
        """Write links to an environment in Dagster and in the documentation, as Markdown."""
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
    return CiSettings(**workspace.settings.plugins.get("ci", {}))
