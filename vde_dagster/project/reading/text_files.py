"""From a file's bytes to its text."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.errors import ProjectError, SourceLocation

MOST_BYTES = 2_000_000
"""Far more than people write, and read in seconds. Data has files of its own, without a limit."""


def decoded(path: Path, content: bytes) -> str:
    r"""Return a file's text; its lines end with `\n`, whatever they end with in the file.

    Args:
        path: The file, relative to the project's root.
        content: Its bytes, in UTF-8 with or without a byte order mark.

    Raises:
        ProjectError: It is too large, or not UTF-8; points at the line.
    """
    if len(content) > MOST_BYTES:
        raise ProjectError(
            f"the file has {len(content):,} bytes; it may have {MOST_BYTES:,}",
            hint="split it; data belongs into seeds or tables",
            location=SourceLocation(path),
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ProjectError(
            f"the file is not UTF-8: byte 0x{content[error.start]:02x} ({error.reason})",
            hint="save it as UTF-8",
            location=SourceLocation(path, line),
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
