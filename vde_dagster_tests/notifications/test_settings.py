"""Wrong settings of notifications are one message with the place, and without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.plugins.notifications.settings import read_receivers
from vde_dagster_tests.projects import ProjectFolder

WRONG = {
    "targets.team = 'slack://hush'": "'notify.targets.team' is not a table",
    "targets.team = { events = [] }": "'notify.targets.team.url' has no address",
    "targets.team = { url = 'hush' }": "'notify.targets.team.url' is not a URL",
    "targets.team = { url = 'slack://hush', evnts = [] }": "notify.targets.team.evnts' is not",
    "targets.team = { url = 'slack://hush', events = 'run' }": "is not a list of texts",
    "targets.team = { url = 'slack://hush', events = ['publicaton'] }": (
        "names an unknown event: 'publicaton'"
    ),
    "targets.team = { url = 'slack://hush', events = [] }": "team.events' is an empty list",
    "owners.anna = { url = 'slack://hush', environments = [] }": "anna.environments' is an empty",
    "owners.anna = []": "'notify.owners.anna' has no address",
    "environments = ['feature/*']": "matches no environment's name: 'feature/*'",
    "targets.team = { url = 'slack://hush', environments = ['Prod'] }": "matches no environment's",
    "owner_events = ['fail']": "names an unknown event: 'fail'",
    "targets = { a = { url = ['slack://hush', 'json://b'] }, 'a/2' = { url = 'json://c' } }": (
        "'notify.targets.a/2' has an address with the name 'a/2', which notify.targets.a has too"
    ),
    "per_hour = 0": "must be 1 or more",
    "per_hour = 'many'": "'notify.per_hour': input should be a valid integer",
    "dagster_url = 'dagster.example'": "is not a URL",
    "target = {}": "unknown setting 'notify.target'",
}


@pytest.mark.parametrize(("line", "said"), WRONG.items())
def test_a_mistake_is_told_with_its_place(tmp_path: Path, line: str, said: str) -> None:
    folder = ProjectFolder(tmp_path)
    folder.write("pyproject.toml", f"[tool.vde]\nname = 'shop'\n[tool.vde.notify]\n{line}\n")
    with pytest.raises(ProjectError) as raised, Workspace.open(folder.root) as workspace:
        assert workspace.settings
    (one,) = raised.value.mistakes
    assert said in one.message
    assert str(one.location) == "pyproject.toml:4"
    assert one.hint
    assert "hush" not in str(one)


def test_receivers_have_what_is_set_or_what_is_usual(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path)
    folder.write(
        "pyproject.toml",
        """
        [tool.vde]
        protected = ["staging*"]
        [tool.vde.notify.targets]
        all = { url = ["json://a", "json://b"] }
        runs = { url = "json://c", events = ["run"], environments = ["dev_*"] }
        """,
    )
    with Workspace.open(folder.root) as workspace:
        settings = workspace.settings
        first, second, runs = read_receivers(settings)
    assert (first.name, second.name, runs.name) == ("all", "all/2", "runs")
    assert "run" not in first.events
    assert {"publication", "rollback", "approval"} <= first.events
    heard = [
        one for one in ("prod", "staging_2", "dev_a") if first.wants_environment(one, settings)
    ]
    assert heard == ["prod", "staging_2"]
    assert [one for one in ("prod", "dev_a") if runs.wants_environment(one, settings)] == ["dev_a"]
