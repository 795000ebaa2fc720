"""How much a plan says for people: with changes of texts, without, in numbers; what is missing."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from vde_dagster.cli.options import LOGGER
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock

pytestmark = pytest.mark.long

MODELS = 30
DAILY = """
    MODEL (name db.daily, start '2024-01-01', cron '@daily',
      kind INCREMENTAL_BY_TIME_RANGE (time_column day));
    SELECT CAST(@start_ds AS STRING) AS day, 1 AS n
"""


@pytest.fixture
def changed(tmp_path: Path) -> ProjectFolder:
    """Thirty published models, of which every text has changed since."""
    folder = ProjectFolder(tmp_path / "many")
    for number in range(MODELS):
        text = f"MODEL (name db.m{number}, kind FULL);\nSELECT 'x' AS a,\n  '{number}' AS b"
        folder.write(f"models/m{number}.sql", text)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    for number in range(MODELS):
        folder.edit(f"models/m{number}.sql", "'x' AS a", "'y' AS a")
    return folder


def test_a_plan_is_shown_with_its_texts_without_them_or_in_a_few_lines(
    changed: ProjectFolder, vde: Vde
) -> None:
    plan = ("plan", "prod", "--project", changed.root)
    whole, names, numbers = (vde(*plan, *more).out for more in ((), ("--no-diff",), ("--summary",)))
    assert whole.count("-SELECT 'x' AS a") == names.count("SELECT") + MODELS == MODELS
    assert names.count("modified, breaking") == MODELS
    assert len(numbers.splitlines()) <= 6
    assert f"computes  {MODELS} models, {MODELS} intervals\n" in numbers
    assert f": {MODELS} modified, {MODELS} to compute" in numbers
    assert "breaking: db.m0, " in numbers
    assert " and 20 more\n" in numbers
    assert f"views     {MODELS} replaced\n" in numbers


def test_nothing_to_do_is_said_only_when_nothing_is_missing(tmp_path: Path, vde: Vde) -> None:
    folder = ProjectFolder(tmp_path / "shop", {"models/daily.sql": DAILY})
    plan = ("plan", "prod", "--project", folder.root)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    assert vde(*plan).out == "prod is up to date: nothing to do\n"
    assert vde(*plan, "--json").json["missing"] == {"models": {}, "commands": []}

    early = ProjectFolder(tmp_path / "early", {"models/daily.sql": DAILY})
    plan = (*plan[:3], early.root)
    clock = FakeClock(datetime(2024, 1, 3, tzinfo=timezone.utc))
    with open_fake(early.root, clock=clock) as workspace:
        workspace.apply(workspace.plan("prod"))
    for command in (plan, (*plan, "--select", "db.daily"), ("apply", *plan[1:])):
        said = vde(*command).out
        assert "nothing to do" not in said
        assert "1 model with" in said
        assert "computed by: vde run prod" in said
    asked = vde(*plan, "--json").json
    assert asked["empty"] is True
    assert asked["missing"]["commands"] == ["vde run prod"]
    (missing,) = asked["missing"]["models"]["db.daily"]
    assert missing["start"] == "2024-01-03T00:00:00Z"
    applied = vde("apply", *plan[1:], "--json").json
    assert (applied["published"], applied["missing"]) == (False, asked["missing"])


def test_the_version_is_told(vde: Vde) -> None:
    from importlib.metadata import version

    told = vde("--version")
    assert (told.code, told.out) == (0, f"vde {version('vde-dagster')}\n")


@pytest.mark.parametrize(
    ("words", "found"),
    [("vde pl", "plan"), ("vde state ex", "export"), ("vde plan prod --su", "--summary")],
)
def test_a_shell_completes_commands_and_options(
    words: str,
    found: str,
    vde: Vde,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("_VDE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    with pytest.raises(SystemExit):
        vde()
    assert capsys.readouterr().out.split() == [found]


def test_the_logger_that_tells_of_spark_is_that_of_its_start() -> None:
    from vde_dagster.spark.session.session import logger

    assert logger.name == LOGGER
