"""Counts of one have a noun in the singular, and an empty list is a sentence."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.orchestration.pages import environment_page
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.reports.document import format_ranges
from vde_dagster.reports.markdown import MAX_DIFF_LINES, diff_block
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

ONE = "MODEL (name shop.one, kind FULL); SELECT DISTINCT id FROM VALUES (1) AS t(id)"


@pytest.fixture
def shop(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    folder = ProjectFolder(tmp_path_factory.mktemp("one") / "shop", {"models/one.sql": ONE})
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    return folder


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("freeze prod close", "close is frozen at prod@1: 1 model, 1 pinned table; kept"),
        ("describe json --to one.json", "1 model of files: one.json"),
        ("docs build --to site", "1 model, "),
        ("sync status", "the project has no syncs"),
    ],
)
def test_one_and_none_are_written_in_words(
    call: str, told: str, shop: ProjectFolder, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop.root)

    done = vde(*call.split())

    assert done.code == 0, done.err
    assert done.out.startswith(told)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("run prod", "prod is up to date: nothing is due; --ignore-cron computes before"),
        ("run prod --ignore-cron", "prod is up to date: nothing to do\n"),
        ("plan prod --restate shop.view", "prod: nothing to restate\n"),
    ],
)
def test_an_empty_plan_advises_no_option_that_was_given(
    call: str, told: str, tmp_path: Path, vde: Vde
) -> None:
    view = "MODEL (name shop.view, kind VIEW); SELECT 1 AS id"
    folder = ProjectFolder(tmp_path / "shop", {"models/view.sql": view})
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))

    done = vde(*call.split(), "--project", folder.root)

    assert done.code == 0, done.err
    assert done.out.startswith(told)


def test_one_more_is_in_the_singular() -> None:
    days = [datetime(2024, 1, day, tzinfo=timezone.utc) for day in (1, 3, 5)]
    ranges = IntervalSet(tuple(Interval(day, day + timedelta(days=1)) for day in days))
    assert format_ranges(ranges, most=2).endswith("2024-01-03, and 1 more range")
    assert "\n… 1 more line\n" in diff_block(map(str, range(MAX_DIFF_LINES + 1)))


def test_one_new_model_of_an_environment_is_in_the_singular() -> None:
    kind = SimpleNamespace(is_external=False)
    snapshot = SimpleNamespace(model=SimpleNamespace(kind=kind))
    shown: Any = SimpleNamespace(served={ModelName("a", "b"): (snapshot, None)})
    first: Any = SimpleNamespace(version=1)
    assert environment_page._changes(first, shown, None) == "1 model is new."
