"""Reports as Markdown: sections, tables, differences of texts, and a plan as a comment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from vde_dagster.base.texts import count, first_of
from vde_dagster.reports.document import Cell, Mark, Report, Row, Section

MAX_DIFF_LINES = 200
MAX_ROWS = 200
MAX_NAME = 32
"""Characters of a name in a table; JSON beside the table has it whole."""
MAX_LINE = 70
"""Characters of a line of code that is not cut off."""
MAX_COMMENT = 60_000
"""Characters of a comment; GitHub takes 65,536 and GitLab a million."""
MOST_SHOWN = 20
"""Rows of a comment that are not folded."""
_MENTION = re.compile(r"(?<![\w`])@(?=\w)")


def plan_comment(report: Report, most: int = MAX_COMMENT) -> str:
    """Write a plan's report as a comment on a pull request: what is long is folded.

    Its first line is a comment of HTML, the same for each plan of an environment, by which a job
    finds the comment that it wrote before. Nobody is mentioned by an `@` of a text.
    """
    shown = [
        f"<!-- vde plan {report.subject} -->",
        f"## {report.title} `{report.subject}`: {report.summary}",
    ]
    if report.breaks:
        shown.append(section_markdown(report.breaks, MOST_SHOWN))
    if report.warnings:
        warnings = tuple(Row((Cell(warning),)) for warning in report.warnings)
        shown.append(section_markdown(Section(report.warnings_title, rows=warnings), MOST_SHOWN))
    folds = []
    for section in report.work:
        if section.title == "Computes":
            shown.append(section_markdown(section, MOST_SHOWN))
        else:
            folds.append(_folded_section(section))
    told = [text for section in report.work for row in section.rows if (text := row_markdown(row))]
    folds += map(_folded_section, report.rest)
    last = f"{report.facts[:1].upper()}{report.facts[1:]}."
    if report.id:
        last = (
            f"Plan `{report.id}`, {report.facts}. "
            f"Apply it with `vde apply {report.subject} --plan {report.id}`."
        )
    room = most - sum(len(part) + 2 for part in (*shown, last)) - 100
    if told:
        # Most of the room: what else is folded is short.
        folds.insert(0, _reasons(told, room * 4 // 5))
    left_out = 0
    for fold in folds:
        if len(fold) + 2 > room:
            left_out += 1
            continue
        room -= len(fold) + 2
        shown.append(fold)
    if left_out:
        shown.append(f"… {count(left_out, 'part')} too long for a comment: the plan has all")
    return unmentioned("\n\n".join([*shown, last]))


def unmentioned(text: str) -> str:
    """Put a joiner of words, which nobody sees, behind each `@` that is not in a block of code."""
    parts = text.split("```")
    return "```".join(
        part if number % 2 else _MENTION.sub("@\u2060", part) for number, part in enumerate(parts)
    )


def _folded_section(section: Section) -> str:
    if not section.rows:
        return section.heading
    text = section_markdown(section).partition("\n")[2].strip()
    return _details(section.heading, text)


def _reasons(told: Sequence[str], room: int) -> str:
    """Write why models change, as many of them as there is room for."""
    kept = list(told[:MAX_ROWS])
    while kept and sum(len(text) + 2 for text in kept) > room:
        kept.pop()
    title = f"Why, and what changed: {count(len(told), 'model')}"
    return _details(title, "\n\n".join([*kept, *more_rows(len(told), len(kept))]))


def _details(title: str, text: str) -> str:
    return f"<details><summary>{literal(title)}</summary>\n\n{text}\n\n</details>"


def section_markdown(section: Section, most: int = MAX_ROWS) -> str:
    """Write a section with its heading, and at most so many rows."""
    lines = [f"### {section.heading}"]
    if section.columns and section.rows:
        rows = [[_marked(cell) for cell in row.cells] for row in section.rows[:most]]
        lines += ["", plain_table(section.columns, rows)]
    elif section.rows:
        cells = (" ".join(literal(c.text) for c in row.cells) for row in section.rows[:most])
        lines += ["", *(f"- {text}" for text in cells)]
    return "\n".join([*lines, *more_rows(len(section.rows), most)])


def row_markdown(row: Row) -> str:
    """Write the reasons of a row, and the lines that changed; nothing where it has none."""
    if not row.reasons and not row.diff:
        return ""
    name, change = row.cells[0], row.cells[1]
    lines = [f"**`{name.text}`** {_marked(change)}", "", *(f"- {text}" for text in row.reasons)]
    if row.diff:
        lines += ["", diff_block(row.diff)]
    return "\n".join(lines)


def diff_block(lines: Iterable[str]) -> str:
    """Write the lines of a diff as a block of code; one that is long is folded, or cut off."""
    # A line of three back quotes inside would end the fence.
    diff = [part for line in lines for part in folded(line.replace("```", "'''"))]
    if len(diff) > MAX_DIFF_LINES:
        diff = [*diff[:MAX_DIFF_LINES], f"… {len(diff) - MAX_DIFF_LINES} more lines"]
    return "\n".join(["```diff", *diff, "```"])


def markdown_table(rows: Sequence[Mapping[str, object]]) -> str:
    """Write at least one row under the first row's columns; None is `NULL`, and `|` is escaped."""
    columns = list(rows[0])
    return plain_table(
        columns, [["NULL" if r[c] is None else str(r[c]) for c in columns] for r in rows]
    )


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
    """Write a text of one line in which SQL's signs are no Markdown."""
    return " ".join(text.split()).replace("<", "&lt;").replace("*", "\\*")


def more_rows(total: int, most: int = MAX_ROWS) -> list[str]:
    """Say how many rows are left out, if any."""
    return ["", f"…{first_of(total, most)}"] if total > most else []


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table; `|` is escaped."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    return "\n".join(lines)


def folded(line: str) -> Iterator[str]:
    """Break a line of a diff that is too long, at spaces; each part keeps the line's sign."""
    sign, rest = line[:1], line[1:]
    indent = " " * (len(rest) - len(rest.lstrip()))
    while len(rest) > MAX_LINE:
        at = rest.rfind(" ", len(indent) + MAX_LINE // 3, MAX_LINE)
        at = at if at > 0 else MAX_LINE
        yield sign + rest[:at]
        rest = f"{indent[: MAX_LINE // 3]}    {rest[at:].lstrip()}"
    yield sign + rest
