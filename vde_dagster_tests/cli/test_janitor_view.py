"""What the janitor decided, for people: many versions that go are one line."""

from __future__ import annotations

import io

from rich.console import Console

from vde_dagster.lakehouse.maintenance.janitor import JanitorReport
from vde_dagster.lakehouse.maintenance.sweep import Decision
from vde_dagster.overviews.environments import janitor_section
from vde_dagster.terminal.reports import show_table


def shown(*versions: tuple[str, int]) -> list[str]:
    decisions = [
        Decision(
            "forget_version",
            f"{environment} version {number}",
            "it is older",
            "planned",
            version=(environment, number),
        )
        for environment, number in versions
    ]
    console = Console(file=io.StringIO(), width=200)
    show_table(console, janitor_section(JanitorReport(True, tuple(decisions))))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_versions_of_an_environment_that_go_are_one_line() -> None:
    lines = shown(("dev", 1), *(("prod", n) for n in (4, 3, 2)), ("qa", 9))
    assert lines[2:] == [
        "forget version dev version 1 it is older planned",
        "forget version prod versions 2 to 4 it is older planned",
        "forget version qa version 9 it is older planned",
        "would free 0 B in 5 steps",
    ]


def test_versions_that_go_for_different_reasons_are_told_apart() -> None:
    console = Console(file=io.StringIO(), width=200)
    decisions = [
        Decision("forget_version", f"prod version {n}", why, "planned", version=("prod", n))
        for n, why in ((4, "many"), (3, "many"), (2, "old"), (1, "old"))
    ]
    show_table(console, janitor_section(JanitorReport(True, tuple(decisions))))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "prod versions 3 to 4   many" in text
    assert "prod versions 1 to 2   old" in text


def test_gaps_are_told() -> None:
    assert "prod versions 2 to 7, 3 of them" in shown(*(("prod", n) for n in (7, 3, 2)))[2]


def test_what_is_kept_is_grouped_by_reason_and_counted() -> None:
    console = Console(file=io.StringIO(), width=200)
    decisions = [
        *(Decision("keep_table", f"t{n}", "environment 'prod' shows it", "kept") for n in range(5)),
        Decision("keep_table", "old", "it is younger than the grace time", "kept"),
        Decision("keep_snapshots", "t1", "1 snapshot is pinned", "kept", 2_000),
    ]
    show_table(console, janitor_section(JanitorReport(True, tuple(decisions))))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    assert lines[2:] == [
        "keep table t0, t1, t2 and 2 more environment 'prod' shows it kept",
        "keep table old it is younger than the grace time kept",
        "keep snapshots t1 1 snapshot is pinned kept 2.0 kB",
        "would free 0 B in 0 steps, keeps 7 objects; --json lists each with its reason",
    ]
