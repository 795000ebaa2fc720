"""The README's animated terminal shows a session as it is today, and needs no script."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.cli.terminal_picture import (
    COLUMNS,
    COMMANDS,
    LINES,
    PICTURE,
    draw,
    masked,
    run_session,
    screen_lines,
    stored_session,
)

RECORD = "python -m vde_dagster_tests.cli.terminal_picture record"


def test_the_picture_is_that_of_the_recorded_session() -> None:
    assert PICTURE.read_text() == draw(stored_session()), RECORD
    commands = [command for _, commands in COMMANDS for command in commands]
    assert [step.command for step in stored_session()] == commands


def test_the_picture_is_small_and_has_neither_scripts_nor_addresses() -> None:
    text = PICTURE.read_text()
    assert len(text) <= 60_000
    assert not re.search(r"<script|<image|<foreignObject|\bon\w+=|href=|url\(|@import", text)
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]


def test_every_line_of_a_scene_fits_on_the_terminal() -> None:
    steps = {step.command: screen_lines(step.output) for step in stored_session()}
    for _, commands in COMMANDS:
        lines = [line for command in commands for line in (steps[command])]
        assert len(lines) + len(commands) <= LINES
        assert all(sum(len(text) for _, text in line) <= COLUMNS for line in lines)


def test_the_plan_of_the_readme_is_that_of_the_session() -> None:
    page = (PICTURE.parents[2] / "README.md").read_text()
    command, *lines = page.partition("```console\n")[2].partition("```")[0].splitlines()
    (plan,) = [step.output for step in stored_session() if f"$ {step.command}" == command]
    assert len(lines) >= 8
    for line in lines:
        assert masked(line.removesuffix("…")) in masked(plan)


def test_a_terminal_keeps_what_was_written_last() -> None:
    progress = "filling 1 of 2\r\x1b[2Kfilling 2 of 2\n\x1b[1A\x1b[2K\x1b[1;32mdone\x1b[0m in 3 s\n"
    assert screen_lines(progress) == [[("1;32", "done"), ("", " in 3 s")]]
    assert masked(progress) == "done in DURATION"
    assert masked("plan dev-29Nov-new-njb8kx of 1a2b3c4d5e6f") == "plan PLAN of HASH"
    estimate = "about 5 s (3 to 10) of work, 6.3 kB (3.1\n kB) read, based on 1 earlier fill"
    assert masked(f"{estimate}\n└── views 3 created") == "ESTIMATE views 3 created"
    assert masked("done") != masked("failed")


@pytest.mark.spark
def test_the_recorded_commands_still_print_the_same(
    tmp_path: Path, spark_engine: SparkEngine
) -> None:
    for now, recorded in zip(run_session(tmp_path), stored_session(), strict=True):
        assert masked(now.output) == masked(recorded.output), f"$ {now.command}\n{RECORD}"
