#!/usr/bin/env python3
"""List sentences and names that need a second reading, in docstrings, messages, hints and docs.

    .ci/prose.py [PATH …] [--count] [--changed BASE] [--ceiling FILE]

Each rule is a pattern that finds most cases of one habit, with false alarms: a hit is a place to
read, not a verdict. docs/reference repeats docstrings and is left out. `--ceiling FILE` fails if
there are more hits than the number in the file; that number may only be lowered.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PATHS = ("vde_dagster", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
RULES = {
    "opens with what, who, whether, those or by which": re.compile(
        r"^(What|Who|Whose|Whom|Those|That (of|which)|By (which|what)|Of (which|what|the)"
        r"|In which|With (which|what)|Whoever|From which|As (it|they) )\b"
    ),
    "software speaks or hears": re.compile(
        r"\b(says|said|tells?|told|hears?|heard|asks?|asked|knows?|answers?) "
        r"(of|it|them|us|people|that|what|who|how|whether|for|by|nothing)\b",
        re.IGNORECASE,
    ),
    "is none, is no X": re.compile(
        r"\b(is|are|was|were|be) (none|no) (of|[a-z]+)\b|\bis none\b", re.IGNORECASE
    ),
    "of now, of then, of its own, those of": re.compile(
        r"\bof (now|then|theirs|before|today)\b|\bof its own\b|\b(those|that) of\b", re.IGNORECASE
    ),
    "goes on, comes to, stands in": re.compile(
        r"\b(goes|go|went|gone) (on|by|with)\b|\bcomes? (to|from|out) (it|an end)\b"
        r"|\bstands? (there|in|on|for|at|beside)\b",
        re.IGNORECASE,
    ),
    "others as a noun": re.compile(
        r"\b(of|by) others\b|\bwho(ever)? (reads?|asks?|comes?|may|writes?)\b", re.IGNORECASE
    ),
    "of which, for whom": re.compile(
        r"\b(of|for|by|with|to|in|on|from) (whom|which)\b", re.IGNORECASE
    ),
    "made of, has to be, anew": re.compile(
        r"\b(has|have|had) to be\b|\bis made of\b|\banew\b", re.IGNORECASE
    ),
    "three relative clauses": re.compile(
        r"\b(that|which|who)\b(?:[^.;:]{3,60}\b(that|which|who)\b){2}", re.IGNORECASE
    ),
    "beside, nobody, whoever, by itself": re.compile(
        r"\b(beside|nobody|whoever|by itself|by themselves)\b", re.IGNORECASE
    ),
}
NAME = re.compile(
    r"^_?(said|told|shown|held|asked|heard|noted|known|given|seen|what|whose|of|one|ones|own"
    r"|others?|them|it|those|meant|takes|gives|says|tells|asks|hears)(_|$)"
    r"|_(of|said|told|shown|one|ones)$"
)
TEXTS = ("hint", "help", "message", "description")
RAISED = ("Error", "Hint", "require", "Problem", "Finding")


def sentences_of(text: str) -> list[str]:
    """Divide a text into sentences of at least three words."""
    parts = re.split(r"(?<=[.!?:])\s+|\n\s*\n", text.strip())
    return [" ".join(part.split()) for part in parts if len(part.split()) > 2]


def read_module(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield (line, sentence or name, whether it is a name) of a Python module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            line = getattr(node, "lineno", 1)
            for sentence in sentences_of(ast.get_docstring(node) or ""):
                yield line, sentence, False
            if not isinstance(node, ast.Module) and NAME.search(node.name):
                yield line, node.name, True
        elif isinstance(node, ast.Call):
            values = [word.value for word in node.keywords if word.arg in TEXTS]
            if ast.unparse(node.func).endswith(RAISED):
                values += node.args[:2]
            for value in values:
                words = _literal_text(value).split()
                if len(words) > 3:
                    yield value.lineno, " ".join(words), False


def _literal_text(value: ast.expr) -> str:
    """Return the text in an expression, with a letter in place of each computed part."""
    parts = []
    for node in ast.walk(value):
        if isinstance(node, ast.FormattedValue):
            parts.append(" X ")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts.append(node.value)
    return "".join(parts)


def read_page(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield (line, sentence, False) of a Markdown page, without code, tables and headings."""
    text = re.sub(r"```.*?```", lambda code: "\n" * code[0].count("\n"), text, flags=re.DOTALL)
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith(("|", "#", "    ", "!")):
            for sentence in sentences_of(re.sub(r"`[^`]*`", "X", line)):
                yield number, sentence, False


def main() -> int:
    """Print the hits or their number; return 1 above the ceiling."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", default=PATHS, type=Path)
    parser.add_argument("--count", action="store_true", help="print hits by rule and by room")
    parser.add_argument("--changed", metavar="BASE", help="only files changed since a commit")
    parser.add_argument("--ceiling", type=Path, metavar="FILE", help="fail above its number")
    options = parser.parse_args()
    places = [Path(path) for path in options.paths]
    files = [
        file
        for place in places
        for file in ([place] if place.is_file() else sorted(place.rglob("*")))
        if file.suffix in (".py", ".md") and file.parent.name != "reference"
    ]
    if options.changed:
        command = ["git", "diff", "--name-only", options.changed]
        changed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        files = [file for file in files if str(file) in changed.split()]
    rules: Counter[str] = Counter()
    rooms: Counter[str] = Counter()
    read = hits = 0
    for file in files:
        text = file.read_text("utf-8")
        for line, words, is_name in (read_module if file.suffix == ".py" else read_page)(text):
            read += 1
            found = (
                ["name"]
                if is_name
                else [rule for rule, pattern in RULES.items() if pattern.search(words)]
            )
            if not found:
                continue
            hits += 1
            rules.update(found)
            rooms[str(file.parent if file.suffix == ".py" else file)] += 1
            if not options.count and options.ceiling is None:
                print(f"{file}:{line}: [{', '.join(found)}] {words[:180]}")
    if options.count:
        for name, number in [*rules.most_common(), *rooms.most_common(25)]:
            print(f"{number:6} {name}")
    print(f"{hits} of {read} sentences and names to read ({100 * hits / max(1, read):.1f} %)")
    if options.ceiling is None:
        return 0
    ceiling = int(options.ceiling.read_text())
    if hits > ceiling:
        print(f"more than the ceiling of {ceiling}: .ci/prose.py --changed main lists them")
    elif hits < ceiling:
        print(f"fewer than the ceiling of {ceiling}: lower it in {options.ceiling}")
    return int(hits > ceiling)


if __name__ == "__main__":
    sys.exit(main())
