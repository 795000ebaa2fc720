"""What a file of SQL is when it is laid out, and what keeps one from being so."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.errors import ProjectError
from vde_dagster.project.formatting.file_layout import laid_out
from vde_dagster.project.reading.statements import split_blocks
from vde_dagster.project.settings import Settings
from vde_dagster.sql.jinja import jinja_blocks, without_blocks
from vde_dagster.sql.layout.options import LayoutOptions
from vde_dagster.sql.scanner import BACKSLASH_DIALECTS, SourceText, scan


def format_text(path: Path, text: str, settings: Settings, options: LayoutOptions) -> str | None:
    """Return a file's text as it is laid out; None where its properties say to leave it alone.

    Args:
        path: The file, relative to the project's root.
        text: Its text.
        settings: The project's settings.
        options: How it shall look.

    Raises:
        ProjectError: The file is malformed, or other words would come of it.
    """
    source = SourceText(path, text)
    if not _wanted(source, settings):
        return None
    made = laid_out(source, settings.dialect, options)
    if _words(source, settings.dialect) != _words(SourceText(path, made), settings.dialect):
        raise source.error("laid out, it would have other words or comments", 0)
    return made


def _wanted(source: SourceText, settings: Settings) -> bool:
    if "formatting" not in settings.model_defaults and "formatting" not in source.text.lower():
        return True
    default = str(settings.model_defaults.get("formatting", True)).lower() != "false"
    backslash = settings.dialect in BACKSLASH_DIALECTS
    comments = [b for b in jinja_blocks(source, backslash=backslash) if b.kind == "comment"]
    blocks = split_blocks(without_blocks(source, comments), settings.dialect)
    values = (block.header.properties.get("formatting") for block in blocks)
    return all(default if value is None else value.boolean() for value in values)


def _words(source: SourceText, dialect: str) -> tuple[list[str], list[str], list[str]]:
    """Return what may not change: words and signs, comments, and templates."""
    backslash = dialect in BACKSLASH_DIALECTS
    blocks = jinja_blocks(source, backslash=backslash)
    plain = without_blocks(source, blocks)
    words: list[str] = []
    comments: list[str] = []
    try:
        for token in scan(plain, backslash=backslash):
            if token.kind == "comment":
                comments.append(token.text)
            else:
                words.append(token.text.upper() if token.kind == "word" else token.text)
    except ProjectError:  # In a dialect of its own, where the file's header says so.
        words.append(plain.text)
    return words, comments, [source.text[block.start : block.end] for block in blocks]
