"""The help of `vde`: commands in panels, each with one whole sentence."""

from __future__ import annotations

import re

from vde_dagster.cli.app import app
from vde_dagster.cli.help import OTHERS, PANELS, grouped
from vde_dagster_tests.cli.conftest import Vde


def sections(text: str) -> dict[str, dict[str, str]]:
    """Read the titles of a help text, with names and sentences below them."""
    found: dict[str, dict[str, str]] = {}
    names: dict[str, str] = {}
    for line in text.splitlines():
        if title := re.fullmatch(r"(\S.*):", line):
            names = found.setdefault(title[1], {})
        elif item := re.match(r"  (\S+(?: \S+)*)(?:  +(\S.*))?$", line):
            names[item[1]] = item[2] or ""
        elif names and line.strip():
            names[[*names][-1]] += f" {line.strip()}"
    return found


def test_every_command_has_a_panel_and_a_whole_sentence(vde: Vde) -> None:
    help_text = sections(vde("--help").out)
    assert [title for title in help_text if title != "Options"] == [*PANELS]
    commands = {name: text for title in PANELS for name, text in help_text[title].items()}
    ours = {info.name for info in (*app.registered_commands, *app.registered_groups)}
    assert ours < commands.keys()
    assert len(commands) > len(ours) + 20, "plug-ins have commands, too"
    assert [name for name, text in commands.items() if not text.rstrip().endswith(".")] == []
    assert [name for name, text in commands.items() if "..." in text] == []


def test_groups_of_commands_have_whole_sentences(vde: Vde) -> None:
    groups = [str(info.name) for info in app.registered_groups]
    assert len(groups) >= 3
    for group in groups:
        commands = sections(vde(group, "--help").out)["Commands"]
        assert [name for name, text in commands.items() if not text.endswith(".")] == []


def test_commands_of_other_distributions_come_last() -> None:
    assert [*grouped(["mine", "plan"])] == [("Work", ["plan"]), (OTHERS, ["mine"])]
