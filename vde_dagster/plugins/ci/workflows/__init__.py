"""CI configuration that checks pull requests and deploys merges, for `vde init --ci`.

Actions are pinned by their commits, vde by its version; a job has only the rights that it needs,
and the secrets that the project's settings name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from vde_dagster import __version__
from vde_dagster.api.commands import Workflow
from vde_dagster.api.errors import UsageError
from vde_dagster.api.values import Settings
from vde_dagster.plugins.ci.forges.plain_git import git_output, place_in_repository

_SECRET = re.compile(r"\$\{(\w+)\}")
_PLAIN = re.compile(r"[\w./-]+")
"""Characters without a special meaning in YAML, in GitHub's expressions and in shells."""


def github_workflow(root: Path) -> Workflow:
    secrets = _find_secrets(root)
    lines = "\n".join(f"          {name}: ${{{{ secrets.{name} }}}}" for name in secrets)
    branch = git_output(root, "symbolic-ref", "--short", "refs/remotes/origin/HEAD")
    branch = _require_plain("branch", branch.removeprefix("origin/") or "main")
    steps = _fill_template(root, "github_steps.yml", SECRETS=lines).rstrip()
    text = _fill_template(root, "github.yml", BRANCH=branch, STEPS=steps).rstrip() + "\n"
    suffix = _suffix(root)
    checks, production = f"vde-checks{suffix}", f"vde-production{suffix}"
    todo = [
        f"create the environments {checks} and {production}; protect {production}: only {branch} "
        "may deploy to it"
    ]
    if secrets:
        todo.append(
            f"add the secrets {', '.join(secrets)} to both environments, not to the repository: "
            f"in {checks} a login of the role vde_apply, in {production} a login of vde_publish"
        )
    path = _repository_root(root) / ".github" / "workflows" / f"vde{suffix}.yml"
    return Workflow(
        {path: text}, (*todo, *_advise_separate_logins(root), *_advise_shared_state(root))
    )


def gitlab_workflow(root: Path) -> Workflow:
    """Return the project's GitLab jobs as files to write.

    If the repository has no `.gitlab-ci.yml`, the files contain one that includes the jobs.
    """
    secrets = ["GITLAB_TOKEN", *_find_secrets(root)]
    top = _repository_root(root)
    name = f"vde{_suffix(root)}.yml"
    files = {top / ".gitlab" / name: _fill_template(root, "gitlab.yml", SECRETS=", ".join(secrets))}
    suffix = _suffix(root)
    todo = [
        f"create each of these variables twice in the project: {', '.join(secrets)}; for the "
        f"environment scope vde{suffix}/* unprotected, with a login of the role vde_apply; for the "
        f"environment scope vde{suffix}-production protected, with a login of the role "
        "vde_publish; GITLAB_TOKEN is a project access token with the role Reporter and the scope "
        "api",
        f"protect the environment vde{suffix}-production",
    ]
    if (top / ".gitlab-ci.yml").exists():
        todo.append(f".gitlab-ci.yml is kept: add `local: .gitlab/{name}` to its `include`")
    else:
        files[top / ".gitlab-ci.yml"] = f"include:\n  - local: .gitlab/{name}\n"
    return Workflow(files, (*todo, *_advise_separate_logins(root), *_advise_shared_state(root)))


def _fill_template(root: Path, template: str, **values: str) -> str:
    text = (Path(__file__).parent / template).read_text("utf-8")
    extras = ",".join(_find_extras(root))
    package = f"vde-dagster{f'[{extras}]' if extras else ''}=={__version__}"
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    project = _require_plain("folder", place_in_repository(root).rstrip("/") or ".")
    argument = "" if project == "." else f" {project}"
    values |= {"PACKAGE": package, "PYTHON": python, "PROJECT": project, "OF": argument}
    values["SUFFIX"] = _suffix(root)
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _read_settings(root: Path) -> Settings:
    from vde_dagster.api.workspace import Workspace

    with Workspace.open(root) as workspace:
        return workspace.settings


def _find_extras(root: Path) -> Iterator[str]:
    settings = _read_settings(root)
    dbt = settings.plugins.get("dbt")
    if dbt is not None and not dbt.get("executable"):
        yield "dbt"
    if any((root / "metrics").glob("**/*.y*ml")):
        # Without MetricFlow, a plan leaves out the metrics that a change breaks.
        yield "metrics"
    if "policies" in settings.plugins:
        yield "policies"
    if (settings.state_url or "").startswith("postgresql"):
        yield "postgres"
    if "signatures" in settings.plugins:
        yield "sign"


def _suffix(root: Path) -> str:
    """Return the suffix of a project's job names, such as `-shop`; empty at the root."""
    place = place_in_repository(root).rstrip("/")
    return f"-{re.sub('[^A-Za-z0-9-]', '-', place)}" if place else ""


def _find_secrets(root: Path) -> list[str]:
    settings = _read_settings(root)
    rest, nessie = settings.rest, settings.plugins.get("nessie", {})
    values = (
        settings.state_url,
        rest.token,
        rest.credential,
        nessie.get("token"),
        *settings.io.values(),
        *settings.catalog_options.values(),
        *rest.properties.values(),
    )
    return sorted({name for value in values if value for name in _SECRET.findall(value)})


def _advise_separate_logins(root: Path) -> list[str]:
    url = _read_settings(root).state_url or ""
    user = re.match(r"postgresql[^:]*://([^:@/]*)", url)
    if user is None or _SECRET.search(user[1]):
        return []
    return [
        "use variables for the login of state_url, because the two jobs have different logins: "
        "postgresql://${VDE_STATE_USER}:${VDE_STATE_PASSWORD}@host/database"
    ]


def _advise_shared_state(root: Path) -> list[str]:
    if not (_read_settings(root).state_url or "sqlite").startswith("sqlite"):
        return []
    # Jobs on other machines cannot use a local file.
    return ["the state is a local file: give the jobs a shared state_url and warehouse"]


def _repository_root(root: Path) -> Path:
    return Path(git_output(root, "rev-parse", "--show-toplevel") or root.resolve())


def _require_plain(what: str, name: str) -> str:
    if not _PLAIN.fullmatch(name):
        raise UsageError(
            f"the {what} '{name}' cannot be used in a workflow's file",
            hint="use only letters, digits, `-`, `_` and `.` in the name",
        )
    return name
