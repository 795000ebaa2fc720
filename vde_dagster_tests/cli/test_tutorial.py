"""docs/tutorial.md as a new user follows it: its commands and edits in order, in an empty folder.

- A block `console` has commands after `$ `, each with what it prints. `…` alone stands for any
  lines, within a line for any text; white space, rules and empty lines do not count. A command
  fails exactly where what it prints has `error: ` or ends a line with `failed`.
- A block `diff` is an edit of the file that was named last in the text, `sql` the whole file.
"""

from __future__ import annotations

import io
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from vde_dagster.cli.app import call
from vde_dagster.spark.engine import SparkEngine

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`(models/[\w/]+\.\w+)`")


@dataclass(frozen=True)
class Block:
    """One block of the page.

    Args:
        language: What kind of block.
        text: Its text.
        file: The file that was named last before it.
    """

    language: str
    text: str
    file: str


def blocks(page: str) -> Iterator[Block]:
    """Return the page's blocks in order."""
    at, file = 0, ""
    for found in BLOCK.finditer(page):
        named = FILE.findall(page[at : found.start()])
        file = named[-1] if named else file
        at = found.end()
        yield Block(found[1], found[2], file)


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Return the commands of a block, each with the lines that it prints."""
    _, *parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    for part in parts:
        command, *printed = part.splitlines()
        yield command, printed


def edited(text: str, diff: str) -> str:
    """Return a file with an edit made."""
    lines = diff.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if line[0] in " -")
    new = "".join(line[1:] for line in lines if line[0] in " +")
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in\n{text}"
    return text.replace(old, new)


def pattern(claimed: Sequence[str]) -> re.Pattern[str]:
    """Return what matches the output that is claimed."""
    parts = []
    for line in claimed:
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*?")
        elif line.strip():
            words = re.escape(" ".join(line.split()))
            parts.append(words.replace("…", ".*") + r"\n")
    return re.compile("".join(parts))


def shown(output: str) -> str:
    """Return an output without empty lines and rules, white space made one blank."""
    lines = (" ".join(line.split()) for line in output.splitlines())
    return "".join(f"{line}\n" for line in lines if line.strip("─ "))


def run(command: str) -> tuple[int, str]:
    """Run a command as the shell would, and return its exit code and what it prints."""
    program, *arguments = shlex.split(command)
    if program == "cd":
        os.chdir(*arguments)
        return 0, ""
    assert program == "vde", command
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = call(arguments)
    return code, output.getvalue()


@pytest.mark.spark
def test_the_tutorial_is_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_engine: SparkEngine
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = 0
    for block in blocks(PAGE.read_text()):
        if block.language == "sql":
            Path(block.file).write_text(block.text)
        elif block.language == "diff":
            Path(block.file).write_text(edited(Path(block.file).read_text(), block.text))
        else:
            assert block.language == "console", block
            for command, claimed in commands(block.text):
                code, output = run(command)
                fails = any(re.search(r"error: |\bfailed$", line) for line in claimed)
                assert (code != 0) is fails, f"$ {command}\n{output}"
                matched = pattern(claimed).fullmatch(shown(output))
                assert matched, f"$ {command}\n{output}\nis not what the page says:\n" + "\n".join(
                    claimed
                )
                ran += 1
    assert ran >= 20


def test_a_claim_that_is_not_true_is_found() -> None:
    output = shown("plan for prod\n\n ├── computes   2 models\n ─────\n└── views 3 created\n")
    for true in (
        ["plan for prod", "├── computes 2 models", "└── views 3 created"],
        ["…", "└── views 3 created"],
        ["plan for …", "…"],
        ["…"],
    ):
        assert pattern(true).fullmatch(output)
    for false in (["plan for prod"], ["…", "└── views 4 created"], ["plan for dev", "…"], []):
        assert not pattern(false).fullmatch(output)
