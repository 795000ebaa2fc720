"""Written files keep the line ends that their lines had."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.project.files import write_text


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        ("a\nb\n", "a\nc\nb\n", "a\nc\nb\n"),
        ("a\r\nb\r\n", "a\nc\nb\n", "a\r\nc\r\nb\r\n"),
        ("a\r\nb\r\n", "a\r\nc\r\nb\r\n", "a\r\nc\r\nb\r\n"),
        ("a\rb\r", "a\nc\nb\n", "a\rc\rb\r"),
        ("a\r\nb\nc\nd\n", "a\nb\nc\nd\n", "a\r\nb\nc\nd\n"),
        ("a\nb\nc\r\nd\r\n", "a\nB\nc\nD\n", "a\nB\nc\r\nD\r\n"),
        ("a\nb\nc\r\nd\r\n", "a\nb\nx\nc\ny\nd\n", "a\nb\nx\nc\r\ny\r\nd\r\n"),
        ("a\r\nb\nc\n", "x\na\nb\n", "x\r\na\r\nb\n"),
        ("a\r\nb\nc\n", "c", "c"),
        ("a\r\nb\nc", "a\nb\nc\n", "a\r\nb\nc\n"),
        ("a\r\nb\nc\n", "", ""),
        ("", "a\n", "a\n"),
    ],
)
def test_a_line_keeps_its_end_and_a_new_one_gets_that_of_the_line_before(
    tmp_path: Path, before: str, text: str, after: str
) -> None:
    path = tmp_path / "model.sql"
    path.write_bytes(before.encode())
    write_text(path, text)
    assert path.read_bytes().decode() == after
