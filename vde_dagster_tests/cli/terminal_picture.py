"""The README's animated terminal, drawn from a recorded session.

`python -m vde_dagster_tests.cli.terminal_picture record` runs the session on Spark in a new project
and stores it; without `record` it draws the stored session again. `test_terminal_picture.py` checks
that the picture is that of the stored session, and that the commands still print the same.
"""

from __future__ import annotations

import html
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest.mock import patch

from vde_dagster.cli.app import call

ROOT = Path(__file__).parents[2]
SESSION = ROOT / "vde_dagster_tests" / "fixtures" / "terminal_session.json"
PICTURE = ROOT / "docs" / "pictures" / "terminal.svg"

COLUMNS, LINES = 94, 24
"""Size of the terminal in characters."""
BEFORE = ("vde init shop", "vde apply prod --yes")
"""Commands that make the project, which the picture leaves out."""
EDIT = "sed -i \"s/= 'paid'/IN ('paid', 'shipped')/\" models/staging/orders.sql"
COMMANDS = (
    ("Edit a model, and plan it for a new environment", (EDIT, "vde plan dev")),
    ("Compute only what the edit changes; prod stays as it is", ("vde apply dev --yes",)),
    ("Publish the same tables: nothing is computed again", ("vde apply prod --yes",)),
    (
        "Go back to the version before, with its data",
        ("vde rollback prod --dry-run", "vde rollback prod"),
    ),
)
"""Scenes: a title, and commands."""

_ESCAPE = re.compile(r"\x1b\[([\d;?]*)([A-Za-z])|\x1b\]8;[^\x1b\x07]*(?:\x1b\\|\x07)|([\r\n])")
_VARYING = (
    (re.compile(r"\b(?:prod|dev)-\d{2}[A-Z][a-z]{2}-\w+-\w+"), "PLAN"),
    (re.compile(r"__[0-9a-f]{12}_[0-9a-f]{6}\b"), "__TABLE"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "HASH"),
    (re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}"), "TIME"),
    (re.compile(r"about \S+ \S+ \(.*? based on \d+ earlier fills?"), "ESTIMATE"),
    (re.compile(r"\d+(?:\.\d+)? (?:min|ms|s|h)\b"), "DURATION"),
)
"""Parts of the output that differ from run to run."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command and the text with colors that it printed."""

    command: str
    output: str


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run_session(folder: Path) -> list[Step]:
    """Run all commands in a new project of a folder, and return those of the scenes."""
    size = {"COLUMNS": str(COLUMNS), "LINES": str(LINES)}
    colors = {"TERM": "xterm-256color", "COLORTERM": ""}
    there = os.getcwd()
    os.chdir(folder)
    try:
        with patch.dict(os.environ, size | colors):
            for command in BEFORE:
                _run(command)
                os.chdir(folder / "shop")
            shown = [command for _, commands in COMMANDS for command in commands]
            return [Step(command, _run(command)) for command in shown]
    finally:
        os.chdir(there)


def _run(command: str) -> str:
    if not command.startswith("vde "):
        subprocess.run(command, shell=True, check=True)
        return ""
    printed = _Terminal()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = call(command.split()[1:])
    assert code == 0, printed.getvalue()
    return printed.getvalue()


def masked(text: str) -> str:
    """Return an output's words, without what differs from run to run and without lines' ends."""
    plain = " ".join("".join(part for _, part in line) for line in screen_lines(text))
    plain = " ".join(re.sub("[─│├└]", " ", plain).split())
    for pattern, word in _VARYING:
        plain = pattern.sub(word, plain)
    return plain


Line = list[tuple[str, str]]
"""Parts of a line: style and text."""


def screen_lines(text: str) -> list[Line]:
    """Return the lines that remain on a terminal after all of an output was written to it.

    >>> screen_lines("50%\\r\\x1b[2K\\x1b[32mdone\\x1b[0m in time\\n")
    [[('32', 'done'), ('', ' in time')]]
    """
    rows: list[list[tuple[str, str]]] = [[]]
    row, column, style, at = 0, 0, "", 0

    def write(written: str) -> None:
        nonlocal column
        for character in written:
            cells = rows[row]
            cells.extend([("", " ")] * (column - len(cells)))
            cells[column : column + 1] = [(style, character)]
            column += 1

    for escape in _ESCAPE.finditer(text):
        write(text[at : escape.start()])
        at = escape.end()
        codes, kind, control = escape.groups()
        if control == "\n":
            row, column = row + 1, 0
            rows.extend([] for _ in range(row + 1 - len(rows)))
        elif control == "\r":
            column = 0
        elif kind == "A":
            row = max(0, row - int(codes or 1))
        elif kind == "K":
            rows[row] = [] if codes == "2" else rows[row][:column]
        elif kind == "m":
            style = "" if codes in ("", "0") else ";".join(filter(None, (style, codes)))
    write(text[at:])
    while rows and not any(character.strip() for _, character in rows[-1]):
        rows.pop()
    return [_joined(cells) for cells in rows]


def _joined(cells: Sequence[tuple[str, str]]) -> Line:
    line: Line = []
    for style, character in cells:
        if line and line[-1][0] == style:
            line[-1] = (style, line[-1][1] + character)
        else:
            line.append((style, character))
    return line


WIDE, HIGH, EDGE, TOP = 8.4, 20, 18, 64
"""Pixels of a character, a line, the margin, and of the part above the first line."""
TYPING, PRINTING, READING = 1.2, 0.05, 4.0
"""Seconds in which a command is typed, in which a line follows another, and at a scene's end."""
COLORS = {"31": "bad", "32": "good", "33": "warn", "34": "blue", "35": "pink", "36": "cyan"}
STYLE = """
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
text{fill:#d5dce6;white-space:pre}.title{font:600 15px system-ui,sans-serif;fill:#fff}
.bold{font-weight:700;fill:#fff}.dim{fill:#8793a3}.good{fill:#6ccf97}.bad{fill:#ff8f85}
.warn{fill:#efbf67}.blue{fill:#7ab8ff}.pink{fill:#cba6f7}.cyan{fill:#7fd6d6}
.scene,.line{opacity:0}@media (prefers-reduced-motion:reduce){
.scene,.line{animation:none!important}#s0,#s0 .line{opacity:1}}
"""


def draw(steps: Sequence[Step]) -> str:
    """Return a session as an animated SVG without scripts."""
    left = list(steps)
    scenes = [(title, [left.pop(0) for _ in commands]) for title, commands in COMMANDS]
    drawn = [[*_scene_lines(parts)] for _, parts in scenes]
    lengths = [lines[-1][0] + READING for lines in drawn]
    total = sum(lengths)
    width, height = COLUMNS * WIDE + 2 * EDGE, TOP + LINES * HIGH + EDGE
    rules, body, begun = [STYLE], [], 0.0
    for number, ((title, _), lines) in enumerate(zip(scenes, drawn, strict=True)):
        first, last = _share(begun, total), _share(begun + lengths[number], total)
        rules.append(
            f"@keyframes k{number}{{0%,{first}%{{opacity:0}}{_after(first)}%,{_before(last)}%"
            f"{{opacity:1}}{last}%,to{{opacity:0}}}}"
            f"#s{number}{{animation:k{number} {total:.1f}s infinite}}"
        )
        body.append(f'<g id="s{number}" class="scene">')
        body.append(f'<text class="title" x="{EDGE}" y="48">{html.escape(title)}</text>')
        for place, (second, line) in enumerate(lines[:LINES]):
            shown = _share(begun + second, total)
            name = f"t{number}_{place}"
            rules.append(
                f"@keyframes {name}{{0%,{shown}%{{opacity:0}}{_after(shown)}%,to{{opacity:1}}}}"
            )
            parts = "".join(_span(*part) for part in _placed(line))
            y = TOP + place * HIGH + 14
            timing = f"animation:{name} {total:.1f}s infinite"
            body.append(f'<text class="line" style="{timing}" y="{y}">{parts}</text>')
        body.append("</g>")
        begun += lengths[number]
    dots = "".join(
        f'<circle cx="{EDGE + 6 + 20 * at}" cy="20" r="6" fill="{color}"/>'
        for at, color in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    described = "A session: " + "; ".join(title for title, _ in COMMANDS)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">'
        f"<title>{html.escape(described)}</title><style>{''.join(rules)}</style>"
        f'<rect width="{width:.0f}" height="{height}" rx="10" fill="#151a21"/>{dots}\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _scene_lines(steps: Sequence[Step]) -> Iterator[tuple[float, Line]]:
    """Yield the lines of a scene, each with the second at which it appears."""
    second = 0.3
    for step in steps:
        yield second, [("32;1", "$ "), ("1", step.command)]
        second += TYPING
        for line in screen_lines(step.output):
            yield second, line
            second += PRINTING


def _placed(line: Line) -> Iterator[tuple[float, str, str]]:
    column = 0
    for style, text in line:
        stripped = text.strip()
        if stripped:
            start = column + len(text) - len(text.lstrip())
            yield EDGE + start * WIDE, style, stripped
        column += len(text)


def _span(x: float, style: str, text: str) -> str:
    codes = style.split(";")
    names = [COLORS[code] for code in codes if code in COLORS]
    names += ["bold"] if "1" in codes and not names else ["dim"] if "2" in codes else []
    shown = f' class="{names[0]}"' if names else ""
    length = f' textLength="{len(text) * WIDE:.1f}"' if len(text) > 1 else ""
    return f'<tspan x="{x:.1f}"{shown}{length}>{html.escape(text)}</tspan>'


def _share(second: float, total: float) -> str:
    return f"{100 * second / total:.2f}"


def _after(share: str) -> str:
    return f"{float(share) + 0.01:.2f}"


def _before(share: str) -> str:
    return f"{float(share) - 0.01:.2f}"


def stored_session() -> list[Step]:
    """Return the recorded session."""
    return [Step(**step) for step in json.loads(SESSION.read_text())]


def main() -> None:
    """Record the session if asked to, and draw it."""
    if sys.argv[1:] == ["record"]:
        with tempfile.TemporaryDirectory(prefix="vde-terminal-") as folder:
            steps = run_session(Path(folder))
        SESSION.write_text(json.dumps([asdict(step) for step in steps], indent=1) + "\n")
    PICTURE.write_text(draw(stored_session()))


if __name__ == "__main__":
    main()
