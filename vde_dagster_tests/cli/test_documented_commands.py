"""Every command and option that a page or a message names is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from vde_dagster.cli.app import app

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md"]
_SPAN = re.compile(r"`(vde [^`\n]*)`")
_BLOCK = re.compile(r"^```(?:console|bash|sh)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_OPTION = re.compile(r"--[a-z][\w-]*|-[a-zA-Z]\b")


def calls(text: str) -> Iterator[list[str]]:
    """Yield the words of each call behind `vde`."""
    lines = [line.strip("$ ") for block in _BLOCK.findall(text) for line in block.splitlines()]
    for call in [*_SPAN.findall(text), *(line for line in lines if line.startswith("vde "))]:
        words = call.partition(" #")[0].split()[1:]
        if words and not words[0].startswith("-"):
            yield words


@cache
def every_command() -> dict[str, Any]:
    """Return all commands by name, those of plug-ins included."""
    group: Any = get_command(app)
    context = group.make_context("vde", [], resilient_parsing=True)
    return {name: group.get_command(context, name) for name in group.list_commands(context)}


def wrong(words: list[str], commands: dict[str, Any]) -> str | None:
    """Say what of a call there is not."""
    found = commands.get(" ".join(words[:2])) or commands.get(words[0])
    if found is None:
        return words[0]
    below = getattr(found, "commands", {})
    found = next((below[word] for word in words[1:] if word in below), found)
    known = {name for one in found.params for name in (*one.opts, *one.secondary_opts)}
    options = [match[0] for word in words[1:] if (match := _OPTION.match(word))]
    return next((one for one in options if one not in {*known, "--help", "-h"}), None)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_commands_and_options_of_a_page_are_there(page: Path) -> None:
    commands = every_command()
    found = [(words, wrong(words, commands)) for words in calls(page.read_text())]

    assert [(words, what) for words, what in found if what is not None] == []


def messages(path: Path) -> Iterator[str]:
    """Yield the texts of a module, with `x` in place of values."""
    tree = ast.parse(path.read_text())
    parts = {
        id(part) for one in ast.walk(tree) if isinstance(one, ast.JoinedStr) for part in one.values
    }
    for one in ast.walk(tree):
        if isinstance(one, ast.JoinedStr):
            values = [part.value if isinstance(part, ast.Constant) else "x" for part in one.values]
            yield "".join(map(str, values))
        elif isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in parts:
            yield one.value


def lacking(words: list[str], commands: dict[str, Any]) -> bool:
    """Return whether a call has fewer arguments than its command requires."""
    found = commands.get(" ".join(words[:2])) or commands[words[0]]
    rest = words[2:] if " ".join(words[:2]) in commands else words[1:]
    if rest and (below := getattr(found, "commands", {}).get(rest[0])) is not None:
        found, rest = below, rest[1:]
    flags = {name for one in found.params if getattr(one, "is_flag", False) for name in one.opts}
    values = [
        word
        for word, before in zip(rest, ["", *rest], strict=False)
        if not word.startswith("-") and (before in flags or not before.startswith("-"))
    ]
    required = [one for one in found.params if one.required]
    arguments = [one for one in required if one.param_type_name == "argument"]
    options = {one.opts[0] for one in required} - {one.opts[0] for one in arguments}
    return len(values) < len(arguments) or not options <= set(words)


def test_a_command_after_the_colon_of_a_message_can_be_run() -> None:
    commands = every_command()
    found = [
        (path.name, call)
        for path in sorted((ROOT / "vde_dagster").rglob("*.py"))
        for text in messages(path)
        for call in re.findall(r": vde ((?:[^;,.`()]|\.(?=\w))+)", " ".join(text.split()))
    ]

    assert len(found) > 80
    assert [
        one
        for one in found
        if wrong(words := one[1].split(), commands) is not None or lacking(words, commands)
    ] == []


def test_a_hint_to_do_it_again_names_the_command() -> None:
    again = re.compile(r"\b(plan|apply|(roll|sign|publish)( \w+)?) again\b", re.IGNORECASE)
    found = [
        (path.name, text)
        for path in sorted((ROOT / "vde_dagster").rglob("*.py"))
        for text in messages(path)
        # Docstrings begin with a capital and end with a stop.
        if again.search(text) and not re.fullmatch(r"[A-Z].*\.\s*", text, re.DOTALL)
    ]

    assert len(found) > 20
    assert [one for one in found if "vde " not in one[1]] == []


def test_a_command_that_is_not_there_is_found() -> None:
    commands = every_command()

    assert wrong(["environment", "drop"], commands) == "environment"
    assert wrong(["plan", "prod", "--forwards"], commands) == "--forwards"
    assert wrong(["state", "export", "file"], commands) is None
