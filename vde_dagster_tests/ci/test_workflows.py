"""`vde init --ci`: the files that it writes, what they may do, and that their command works."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from vde_dagster_tests.ci.conftest import Team, git
from vde_dagster_tests.ci.servers import FakeForge
from vde_dagster_tests.ci.test_running import DOUBLED, be_job
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import FakeSpark
from vde_dagster_tests.projects import SHOP, ProjectFolder
from vde_dagster_tests.yaml_files import read_yaml

POSTGRESQL = """
[tool.vde]
id = "shop"
state_url = "postgresql://vde:${DB_PASSWORD}@db/vde"
warehouse = "s3://lake/shop"
io = { "s3.secret-access-key" = "${S3_KEY}" }
"""
FILES = {"github": ".github/workflows/vde-transform.yml", "gitlab": ".gitlab/vde-transform.yml"}
RUN = "vde ci run --project transform"


@pytest.fixture
def shop(tmp_path: Path) -> ProjectFolder:
    """A project in a folder of a repository, on a state that machines share."""
    git(tmp_path, "init", "-q", "-b", "main")
    return ProjectFolder(tmp_path / "transform", {**SHOP, "pyproject.toml": POSTGRESQL})


def _written(vde: Vde, shop: ProjectFolder, system: str) -> Any:
    done = vde("init", shop.root, "--ci", system, "--json")
    assert done.code == 0, done.err
    repository = shop.root.parent.resolve()
    assert str(repository / FILES[system]) in done.json["files"]
    text = (repository / FILES[system]).read_text()
    assert not re.search("@[A-Z]+@", text)
    return read_yaml(repository / FILES[system]), done.json["left"]


def test_github_gets_two_jobs_with_the_least_rights_and_secrets_of_their_own(
    vde: Vde, shop: ProjectFolder
) -> None:
    found, left = _written(vde, shop, "github")
    events = found[True]  # YAML 1.1 reads `on` so.
    assert set(events) == {"pull_request", "push"}
    assert "closed" in events["pull_request"]["types"]
    assert events["push"]["branches"] == ["main"]
    assert found["permissions"] == {}
    assert found["concurrency"]["cancel-in-progress"] is False
    assert "'production'" in found["concurrency"]["group"]
    assert "github.workflow" in found["concurrency"]["group"], "one group a project"
    assert found["name"] == "vde transform"
    check, deploy = found["jobs"]["check"], found["jobs"]["deploy"]
    assert set(found["jobs"]) == {"check", "deploy"}
    comment = {"contents": "read", "pull-requests": "write"}
    assert (check["permissions"], deploy["permissions"]) == (
        {**comment, "checks": "write"},
        comment,
    )
    assert check["environment"] == "vde-checks-transform"
    assert deploy["environment"] == "vde-production-transform"
    for job in (check, deploy):
        uses = [step["uses"] for step in job["steps"] if "uses" in step]
        assert uses
        assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", one) for one in uses)
        checkout = next(step for step in job["steps"] if "checkout" in step.get("uses", ""))
        assert checkout["with"]["persist-credentials"] is False
        assert checkout["with"]["fetch-depth"] >= 2, "the base branch's rules are read, too"
        *others, last = job["steps"]
        assert last["run"] == RUN
        assert last["env"] == {
            "GITHUB_TOKEN": "${{ github.token }}",
            "DB_PASSWORD": "${{ secrets.DB_PASSWORD }}",
            "S3_KEY": "${{ secrets.S3_KEY }}",
        }
        assert not any("secrets" in str(step) for step in others)
        assert "env" not in job
        pip = next(step["run"] for step in others if "pip" in step.get("run", ""))
        assert shlex.split(pip)[-1] == f"vde-dagster[postgres]=={version('vde-dagster')}"
    protect, give, login = left
    assert "protect vde-production-transform: only main may deploy to it" in protect
    assert "the secrets DB_PASSWORD, S3_KEY to both environments, not to the repository" in give
    assert "role vde_apply, in vde-production-transform a login of vde_publish" in give
    assert "use variables for the login of state_url" in login


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ('[tool.vde.nessie]\nuri = "http://n/api/v2"\ntoken = "${NESSIE}"', {"NESSIE"}),
        (
            '[tool.vde.rest]\nuri = "http://c"\ncredential = "vde:${C}"\n'
            'properties = { "header.x" = "${H}" }',
            {"C", "H"},
        ),
    ],
)
def test_jobs_get_the_secrets_of_a_catalog(
    vde: Vde, shop: ProjectFolder, table: str, names: set[str]
) -> None:
    shop.write("pyproject.toml", f"{POSTGRESQL}\n{table}\n")
    found, _ = _written(vde, shop, "github")
    env = found["jobs"]["check"]["steps"][-1]["env"]
    assert env.keys() - {"GITHUB_TOKEN"} == {"DB_PASSWORD", "S3_KEY", *names}


@pytest.mark.parametrize("system", ["github", "gitlab"])
@pytest.mark.parametrize(
    ("table", "file", "extras"),
    [
        ("[tool.vde.policies]\n[tool.vde.signatures.trusted]", "", "policies,postgres,sign"),
        ("[tool.vde.dbt]", "", "dbt,postgres"),
        ('[tool.vde.dbt]\nexecutable = "/opt/dbt"', "", "postgres"),
        ("", "metrics/orders.yaml", "metrics,postgres"),
    ],
)
def test_jobs_install_the_extras_that_the_project_needs(
    vde: Vde, shop: ProjectFolder, system: str, table: str, file: str, extras: str
) -> None:
    shop.write("pyproject.toml", f"{POSTGRESQL}\n{table}\n")
    if file:
        shop.write(file, "")
    found, _ = _written(vde, shop, system)
    assert f"vde-dagster[{extras}]=={version('vde-dagster')}" in str(found)


@pytest.mark.parametrize("system", ["github", "gitlab"])
@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://vde:${DB_PASSWORD}@db/vde", True),
        ("postgresql://vde@db/vde", True),
        ("postgresql://${DB_USER}:${DB_PASSWORD}@db/vde", False),
        ("postgresql://${DB_USER}@db/vde", False),
        ("${DB_URL}", False),
    ],
)
def test_a_login_that_both_jobs_would_have_is_told(
    vde: Vde, shop: ProjectFolder, system: str, url: str, told: bool
) -> None:
    shop.write("pyproject.toml", POSTGRESQL.replace("postgresql://vde:${DB_PASSWORD}@db/vde", url))
    _, left = _written(vde, shop, system)
    assert any("the two jobs have different logins" in one for one in left) is told


@pytest.mark.parametrize(
    ("event", "repository", "jobs"),
    [
        ("push", None, {"deploy"}),
        ("pull_request", "acme/shop", {"check"}),
        ("pull_request", "mallory/shop", set()),
        ("pull_request", None, set()),
    ],
)
def test_github_runs_a_forks_code_in_no_job_and_a_pull_requests_in_one(
    vde: Vde, shop: ProjectFolder, event: str, repository: str | None, jobs: set[str]
) -> None:
    found, _ = _written(vde, shop, "github")
    known = {
        "github.event_name": event,
        "github.event.pull_request.head.repo.full_name": repository,
        "github.repository": "acme/shop",
        "'push'": "push",
        "'pull_request'": "pull_request",
    }

    def runs(job: Mapping[str, Any]) -> bool:
        terms = (term.split(" == ") for term in job["if"].split(" && "))
        return all(known[one] == known[other] for one, other in terms)

    assert {name for name, job in found["jobs"].items() if runs(job)} == jobs


def _jobs(found: Mapping[str, Any], variables: Mapping[str, str]) -> set[str]:
    """Return the jobs that GitLab adds to a pipeline."""

    def value(text: str) -> str | None:
        return variables.get(text[1:]) if text.startswith("$") else text.strip('"')

    def holds(rule: Mapping[str, Any]) -> bool:
        terms = (term.split(" == ") for term in rule["if"].split(" && "))
        return all(value(one) == value(other) for one, other in terms)

    jobs = {name: job for name, job in found.items() if not name.startswith(".")}
    return {name for name, job in jobs.items() if any(map(holds, job["rules"]))}


MERGE_REQUEST = {"CI_PIPELINE_SOURCE": "merge_request_event", "CI_PROJECT_ID": "1"}
PUSH = {"CI_PIPELINE_SOURCE": "push", "CI_DEFAULT_BRANCH": "main"}


@pytest.mark.parametrize(
    ("variables", "jobs"),
    [
        (
            {**MERGE_REQUEST, "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "1"},
            {"vde-check-transform", "vde-close-transform"},
        ),
        ({**MERGE_REQUEST, "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "9"}, set()),
        ({**PUSH, "CI_COMMIT_BRANCH": "main"}, {"vde-deploy-transform"}),
        ({**PUSH, "CI_COMMIT_BRANCH": "doubled"}, set()),
        ({**PUSH, "CI_COMMIT_TAG": "v1"}, set()),
    ],
)
def test_gitlab_gets_jobs_for_its_pipelines(
    vde: Vde, shop: ProjectFolder, variables: dict[str, str], jobs: set[str]
) -> None:
    found, _ = _written(vde, shop, "gitlab")
    assert _jobs(found, variables) == jobs


def test_gitlab_runs_one_deployment_at_a_time_and_stops_environments(
    vde: Vde, shop: ProjectFolder
) -> None:
    found, left = _written(vde, shop, "gitlab")
    assert found["vde-deploy-transform"]["resource_group"] == "vde-transform-production"
    check, close = found["vde-check-transform"], found["vde-close-transform"]
    assert check["extends"] == close["extends"] == ".vde-merge-request-transform"
    assert (
        found[".vde-merge-request-transform"]["resource_group"]
        == "vde-transform-$CI_MERGE_REQUEST_IID"
    )
    assert check["environment"]["on_stop"] == "vde-close-transform"
    assert close["environment"] == {"name": check["environment"]["name"], "action": "stop"}
    assert close["rules"][0]["when"] == "manual"
    assert check["artifacts"]["reports"] == {"codequality": "gl-code-quality-report.json"}
    assert found[".vde-transform"]["script"] == [RUN]
    deploy = found["vde-deploy-transform"]
    assert deploy["environment"] == {"name": "vde-transform-production"}
    assert check["environment"]["name"].startswith("vde-transform/")
    assert "twice in the project: GITLAB_TOKEN, DB_PASSWORD, S3_KEY;" in left[0]
    assert "vde-transform-production protected, with a login of the role vde_publish;" in left[0]
    assert left[1] == "protect the environment vde-transform-production"
    assert read_yaml(shop.root.parent / ".gitlab-ci.yml") == {
        "include": [{"local": ".gitlab/vde-transform.yml"}]
    }


def test_a_pipeline_that_there_is_stays_as_it_is(vde: Vde, shop: ProjectFolder) -> None:
    own = shop.root.parent / ".gitlab-ci.yml"
    own.write_text("lint:\n  script: [make]\n")
    _, left = _written(vde, shop, "gitlab")
    assert own.read_text() == "lint:\n  script: [make]\n"
    assert any("to its `include`" in sentence for sentence in left)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--ci", "gitea"), "no CI system 'gitea' is installed"),
        (("--ci", "github", "--dbt"), "--ci adds jobs to an existing project"),
        (("nowhere", "--ci", "github"), "the folder 'nowhere' does not exist"),
        ((".", "--ci", "github"), "there are no models"),
    ],
)
def test_bad_input_is_refused_and_writes_nothing(
    vde: Vde, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: Any, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = vde("init", *arguments)
    assert (done.code, said in done.err) == (2, True), done.err
    assert list(tmp_path.rglob("*.yml")) == []


def test_a_file_that_there_is_is_not_written_over(vde: Vde, shop: ProjectFolder) -> None:
    _written(vde, shop, "github")
    path = shop.root.parent / FILES["github"]
    path.write_text("mine")
    done = vde("init", shop.root, "--ci", "github")
    assert (done.code, "nothing was written: " in done.err, path.read_text()) == (2, True, "mine")


def test_a_folder_that_would_be_code_in_the_file_is_refused(vde: Vde, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    shop = ProjectFolder(tmp_path / "a ${{ x }} b", {**SHOP, "pyproject.toml": POSTGRESQL})
    done = vde("init", shop.root, "--ci", "github")
    assert (done.code, "cannot be used in a workflow" in done.err) == (2, True)


def test_the_command_of_the_file_does_what_the_job_is_for(
    team: Team,
    server: FakeForge,
    engine: FakeSpark,
    vde: Vde,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    team.publish()
    anna = team.clone("anna")
    assert vde("init", anna.root, "--ci", server.name).code == 0
    found = read_yaml(anna.root / FILES[server.name].replace("-transform", ""))
    gitlab = server.name == "gitlab"
    run = found["vde-check"]["script"] if gitlab else [found["jobs"]["check"]["steps"][-1]["run"]]
    *before, command = map(shlex.split, run)
    anna.edit(*DOUBLED)
    head = server.heads[7] = team.commit(anna, "doubled")
    other = team.push(("models/marts/top.sql", "kind FULL", "description 'Best', kind FULL"))
    be_job(monkeypatch, anna, server, "opened", head)
    monkeypatch.setenv("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main")
    for words in before:
        subprocess.run(map(os.path.expandvars, words), check=True)
    if gitlab:
        best = (anna.root / "models/marts/top.sql").read_text()
        assert best == (other.root / "models/marts/top.sql").read_text(), "main is merged"
    checked = vde(*command[1:])
    assert checked.code == 0, checked.err
    main = team.merge("doubled")
    merged = git(main.root, "rev-parse", "HEAD")
    server.merges[merged] = 7
    be_job(monkeypatch, main, server, "push", merged)
    used = engine.statements
    deployed = vde(*command[1:])
    assert (deployed.code, engine.statements) == (0, used), deployed.err
    assert "was published to prod as version 2" in deployed.out
