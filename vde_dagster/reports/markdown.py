"""Reports as Markdown: sections, tables, text differences, and a plan as a comment."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, compress
from types import MappingProxyType

from vde_dagster.base.texts import and_more, count
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.reports.document import Cell, Mark, Row, Section
from vde_dagster.reports.plan import plan_report

MAX_DIFF_LINES = 200
MAX_ROWS = 200
MAX_NAME = 32
"""Maximum length of a name in a table; the JSON next to it has the full name."""
MAX_LINE = 70
"""Maximum length of a line of code before it is folded."""
MAX_COMMENT = 60_000
"""Maximum length of a comment; GitHub accepts 65,536 characters and GitLab a million."""
MOST_SHOWN = 20
"""Maximum number of rows in a comment before they are folded."""
_MENTION = re.compile(r"(?<![\w`])@(?=\w)")


def plan_comment(
    plan: Plan,
    previous: Mapping[str, Snapshot] = MappingProxyType({}),
    most: int = MAX_COMMENT,
    *,
    with_id: bool = True,
) -> str:
    """Format a plan's report as a comment on a pull request.

    Args:
        previous: Snapshots that the plan replaces, by id, for text differences.
        most: Maximum number of characters.
        with_id: Whether to write the plan's id and the command that applies the plan.
    """
    # The first line is an HTML comment that is the same for each plan of an environment, so a job
    # can find its earlier comment. Long parts are folded. An `@` in a text mentions no user.
    report = plan_report(plan, previous)
    shown = [
        f"<!-- vde plan {report.subject} -->",
        f"## {report.title} `{report.subject}`: {report.summary}",
    ]
    if report.breaks:
        shown.append(section_markdown(report.breaks, MOST_SHOWN))
    if report.warnings:
        warnings = tuple(Row((Cell(warning),)) for warning in report.warnings)
        shown.append(section_markdown(Section(report.warnings_title, rows=warnings), MOST_SHOWN))
    # The first section has what is computed.
    shown += [section_markdown(section, MOST_SHOWN) for section in report.work[:1]]
    folds = [*map(_folded_section, report.work[1:])]
    explanations = [
        text for section in report.work for row in section.rows if (text := row_markdown(row))
    ]
    folds += map(_folded_section, report.rest)
    last = f"{report.facts[:1].upper()}{report.facts[1:]}."
    if report.id and with_id:
        last = (
            f"Plan `{report.id}`, {report.facts}. "
            f"Apply it with `vde apply {report.subject} --plan {report.id}`."
        )
    room = most - sum(len(part) + 2 for part in (*shown, last)) - 100
    if explanations:
        # Diffs get most of the room; the other folded parts are short.
        folds.insert(0, _reasons(explanations, room * 4 // 5))
    left_out = 0
    for fold in folds:
        if len(fold) + 2 > room:
            left_out += 1
            continue
        room -= len(fold) + 2
        shown.append(fold)
    if left_out:
        shown.append(
            f"… {count(left_out, 'part')} left out, because the comment would be too "
            "long: see the plan"
        )
    return without_mentions("\n\n".join([*shown, last]))


def without_mentions(text: str) -> str:
    """Insert an invisible character after each `@` that would mention a user in Markdown.

    Code blocks stay unchanged.
    """
    # A fence begins a line. A value in a table may have the same three characters.
    parts = re.split("^```", text, flags=re.MULTILINE)
    return "```".join(
        part if number % 2 else _MENTION.sub("@\u2060", part) for number, part in enumerate(parts)
    )


def _folded_section(section: Section) -> str:
    if not section.rows:
        return section.heading
    text = section_markdown(section).partition("\n")[2].strip()
    return _details(section.heading, text)


def _reasons(explanations: Sequence[str], room: int) -> str:
    kept = list(explanations[:MAX_ROWS])
    while kept and sum(len(text) + 2 for text in kept) > room:
        kept.pop()
    title = f"Reasons and changes: {count(len(explanations), 'model')}"
    return _details(title, "\n\n".join([*kept, *more_rows(len(explanations), len(kept))]))


def _details(title: str, text: str) -> str:
    return f"<details><summary>{literal(title)}</summary>\n\n{text}\n\n</details>"


def section_markdown(section: Section, most: int = MAX_ROWS, *, narrow: bool = False) -> str:
    lines = [f"### {section.heading}"]
    if section.columns and section.rows:
        rows = [[_marked(cell) for cell in row.cells] for row in section.rows[:most]]
        lines += ["", plain_table(section.columns, rows, narrow=narrow)]
    elif section.rows:
        cells = (" ".join(literal(c.text) for c in row.cells) for row in section.rows[:most])
        lines += ["", *(f"- {text}" for text in cells)]
    return "\n".join([*lines, *more_rows(len(section.rows), most)])


def row_markdown(row: Row) -> str:
    """Write the reasons and the diff of a row, or an empty text if it has neither."""
    if not row.reasons and not row.diff:
        return ""
    name, change = row.cells[0], row.cells[1]
    lines = [f"**`{name.text}`** {_marked(change)}", "", *(f"- {text}" for text in row.reasons)]
    if row.diff:
        lines += ["", diff_block(row.diff)]
    return "\n".join(lines)


def diff_block(lines: Iterable[str]) -> str:
    # A line of three backquotes inside would end the fence.
    # Long lines are folded, and long diffs are cut.
    diff = [part for line in lines for part in break_line(line.replace("```", "'''"))]
    if len(diff) > MAX_DIFF_LINES:
        diff = [*diff[:MAX_DIFF_LINES], f"… {count(len(diff) - MAX_DIFF_LINES, 'more line')}"]
    return "\n".join(["```diff", *diff, "```"])


def markdown_table(rows: Sequence[Mapping[str, object]]) -> str:
    """Format rows, at least one, as a narrow table of the first row's columns; None is `NULL`."""
    columns = list(rows[0])
    cells = [["NULL" if r[c] is None else str(r[c]) for c in columns] for r in rows]
    return plain_table(columns, cells, narrow=True)


def short_name(name: object) -> str:
    """Shorten a name in its middle if it is too long for a table."""
    text = str(name)
    half = (MAX_NAME - 1) // 2
    return text if len(text) <= MAX_NAME else f"{text[:half]}…{text[-half:]}"


def _marked(cell: Cell) -> str:
    if cell.mark is Mark.NAME:
        return f"`{short_name(cell.text)}`"
    return f"**{cell.text}**" if cell.mark is Mark.BAD else cell.text


def literal(text: str) -> str:
    """Write a text as one line of Markdown, with `<` and `*` escaped."""
    return " ".join(text.split()).replace("<", "&lt;").replace("*", "\\*")


def more_rows(total: int, most: int = MAX_ROWS) -> list[str]:
    return ["", f"…{and_more(total, most)}"] if total > most else []


def plain_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, narrow: bool = False
) -> str:
    """Format a table as Markdown.

    Args:
        narrow: Whether to cut the table to the width of Dagster's metadata, where words are never
            broken.
    """
    # If a narrow table is too wide, empty columns are left out and long words are cut in their
    # middle. Columns that do not fit are listed below the table, so the caller puts the most
    # important columns first.
    if narrow:
        columns, rows, left = _fitting(columns, rows)
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    if narrow and left:
        lines += ["", f"Further columns: {', '.join(left)}"]
    return "\n".join(lines)


def _fitting(
    columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[Sequence[str], Sequence[Sequence[str]], Sequence[str]]:
    """Return a table cut to the width of Dagster's metadata, and the names of omitted columns."""
    words = _longest_words(columns, rows)
    if table_width(columns, rows) > MAX_WIDTH:
        used = [cell > 0 for _, cell in words]
        columns, *rows = [list(compress(line, used)) for line in (columns, *rows)]
        words = list(compress(words, used))
    limits = [_NARROWEST_NAME, *[_NARROWEST] * (len(words) - 1)]
    least = accumulate(map(_column_width, words, limits))
    shown = sum(width <= MAX_WIDTH for width in least)
    words, narrowest = words[:shown], limits[:shown]
    limits = [max(map(max, words), default=0)] * shown
    while sum(map(_column_width, words, limits)) > MAX_WIDTH:
        limits = list(map(max, (limit - 1 for limit in limits), narrowest))
    heads, *cells = [list(map(_cut_words, line, limits)) for line in (columns, *rows)]
    return heads, cells, columns[shown:]


MAX_WIDTH = 600.0
"""Maximum width of a table in Dagster's metadata, in pixels."""
_CHARACTER, _HEADING, _PADDING = 8.4, 7.0, 18.0
"""Width of a character in Dagster's cells and headings, and of a column's padding, in pixels."""
_NARROWEST = 12
"""Length to which a column's words can be cut, in characters."""
_NARROWEST_NAME = 20
"""The same for the first column, which names the row."""
_LINK = re.compile(r"\[([^\]]*)\](\([^)]*\))")
_WORD = re.compile(rf"{_LINK.pattern}|\S+")


def table_width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> float:
    """Return the width in pixels that a table needs without breaking words."""
    return sum(_column_width(words) for words in _longest_words(columns, rows))


def _longest_words(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    return [
        (word_width(name), max((word_width(row[place]) for row in rows), default=0))
        for place, name in enumerate(columns)
    ]


def _column_width(words: tuple[int, int], limit: int = sys.maxsize) -> float:
    heading, cell = words
    return max(min(heading, limit) * _HEADING, min(cell, limit) * _CHARACTER) + _PADDING


def word_width(text: str) -> int:
    """Return the length of the longest word that Markdown shows."""
    shown = _LINK.sub(r"\1", text).translate(_INVISIBLE)
    return max(map(len, shown.split()), default=0)


_INVISIBLE = str.maketrans("", "", "`*\\")


def _cut_words(text: str, limit: int) -> str:
    head = (limit - 1) // 2

    def cut(found: re.Match[str]) -> str:
        word = found[0]
        if found[2]:
            return f"[{_cut_words(found[1], limit)}]{found[2]}"
        return word if word_width(word) <= limit else _cut(word, head, limit - 1 - head)

    return _WORD.sub(cut, text)


def _cut(word: str, head: int, tail: int) -> str:
    # The backticks and asterisks around the word, which format it in Markdown, are kept.
    inner = word.strip("`*")
    before, after = word[: word.index(inner)], word[word.index(inner) + len(inner) :]
    return f"{before}{inner[:head]}…{inner[-tail:]}{after}"


def break_line(line: str) -> Iterator[str]:
    """Yield the parts of a long diff line, divided at spaces."""
    # Each part keeps the line's sign.
    sign, rest = line[:1], line[1:]
    indent = " " * (len(rest) - len(rest.lstrip()))
    while len(rest) > MAX_LINE:
        at = rest.rfind(" ", len(indent) + MAX_LINE // 3, MAX_LINE)
        at = at if at > 0 else MAX_LINE
        yield sign + rest[:at]
        rest = f"{indent[: MAX_LINE // 3]}    {rest[at:].lstrip()}"
    yield sign + rest
