"""The help of `vde`: commands in panels, each with one whole sentence."""

from __future__ import annotations

import re
from pathlib import Path

from vde_dagster.cli.app import app
from vde_dagster.cli.help import OTHERS, PANELS, grouped, read_pages
from vde_dagster_tests.cli.conftest import Vde

DOCS = Path(__file__).parents[2] / "docs"


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


def test_the_cheat_sheet_is_a_page_of_the_docs_and_of_the_command(vde: Vde) -> None:
    page = (DOCS / "cheatsheet.md").read_text()
    assert read_pages()["cheatsheet"] == page
    assert vde("help", "cheatsheet").out == page
    assert vde("help", "cheatsheet", "--json").json == {
        "topic": "cheatsheet",
        "text": page,
    }
    assert len(page.splitlines()) <= 100, "it fits on one page"


def test_help_on_a_command_is_its_option_help(vde: Vde) -> None:
    listed = vde("help").out
    assert listed.startswith(vde("--help").out.rstrip())
    names = listed.partition("Pages, to read by `vde help PAGE`:")[2].replace(",", "").split()
    assert set(names) == {page.stem for page in DOCS.glob("*.md")}
    for words in (
        ("plan",),
        ("plan", "reject"),
        ("state", "export"),
        ("docs", "build"),
        ("state",),
    ):
        assert vde("help", *words).out.rstrip() == vde(*words, "--help").out.rstrip()


def test_help_on_an_unknown_word_points_to_the_closest_one(vde: Vde) -> None:
    for words, hint in (
        (("chetsheet",), "did you mean 'cheatsheet'?"),
        (("rolback",), "did you mean 'rollback'?"),
        (("state", "exprt"), "did you mean 'state'?"),
        (("xyzzy",), "to list all commands and pages, run: vde help"),
    ):
        called = vde("help", *words)
        assert (called.code, called.out) == (2, "")
        assert f"'{' '.join(words)}' is neither a command nor a page of help" in called.err
        assert hint in called.err
