"""Progress counts the models that were announced, and no others."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from unittest.mock import MagicMock

from rich.console import Console

from vde_dagster.cli.progress import ApplyProgress
from vde_dagster.execution.events import Event, IntervalFilled
from vde_dagster.orchestration.events.applying import log_event
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

AUDITED = "MODEL (name db.{name}, kind FULL{audits}); SELECT {n} AS n"


def test_a_model_that_is_only_audited_is_not_counted_as_computed(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop")
    for name in ("one", "two"):
        folder.write(f"models/{name}.sql", AUDITED.format(name=name, audits="", n=1))
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        audits = ", audits (not_null(columns := (n)))"
        folder.write("models/one.sql", AUDITED.format(name="one", audits=audits, n=1))
        folder.write("models/two.sql", AUDITED.format(name="two", audits="", n=2))
        workspace.reload()
        plan, said = workspace.plan("prod"), StringIO()
        with ApplyProgress(Console(file=said, width=200), plan) as progress:
            workspace.apply(plan, on_event=progress.show)
    text = said.getvalue()
    assert "computing 1 model" in text
    assert "(1/1) db.two" in text
    assert "db.one" in text
    assert "(2/1)" not in text


def test_recording_as_filled_is_not_computing(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop")
    folder.write("models/one.sql", AUDITED.format(name="one", audits="", n=1))
    log = MagicMock()
    with open_fake(folder.root) as workspace:
        plan, said = workspace.plan("prod", empty_backfill=True), StringIO()

        def show(event: Event) -> None:
            progress.show(event)
            log_event(log, event)

        with ApplyProgress(Console(file=said, width=200), plan) as progress:
            workspace.apply(plan, on_event=show)
    assert "recording as filled 1 model, 1 interval\n" in said.getvalue()
    assert log.info.call_args_list[0].args[0].endswith("models to record as filled: 1")


def test_what_a_fill_notes_is_shown_and_logged(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop")
    folder.write("models/one.sql", AUDITED.format(name="one", audits="", n=1))
    note = "db.one: 2 times, several states of one (hk) came at one load date"
    log = MagicMock()
    with open_fake(folder.root) as workspace:
        plan, said = workspace.plan("prod"), StringIO()

        def show(event: Event) -> None:
            if isinstance(event, IntervalFilled):
                event = replace(event, result=replace(event.result, notes=(note,)))
            progress.show(event)
            log_event(log, event)

        with ApplyProgress(Console(file=said, width=200), plan) as progress:
            workspace.apply(plan, on_event=show)
    assert note in said.getvalue()
    log.warning.assert_called_once_with(note)
