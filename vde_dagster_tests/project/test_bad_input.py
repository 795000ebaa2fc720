"""Every mistake in a project gives one message with file, line and hint.

A case is a file in `bad_input/`: sections `=== path` with the project's files, then `=== error`
with the location, and pieces of the message and of the hint, one a line.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.project.loading.loader import load_project

CASES = sorted((Path(__file__).parent / "bad_input").glob("*.case"))


def read_case(path: Path) -> tuple[dict[str, str], list[str]]:
    parts = re.split(r"^=== (.+)\n", path.read_text(), flags=re.MULTILINE)[1:]
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    return sections, sections.pop("error").split("\n")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_mistake_gives_one_message_with_place_and_hint(path: Path, tmp_path: Path) -> None:
    files, expected = read_case(path)
    for name, text in files.items():
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    with pytest.raises(ProjectError) as caught:
        load_project(tmp_path)

    error = caught.value
    place, message, hint = expected[0], expected[1], expected[2]
    assert str(error.location) == place
    assert message in error.message
    assert hint in (error.hint or "")
    assert "\n" not in error.message
    assert error.exit_code == 2
    lenient = load_project(tmp_path, strict=False)
    assert [str(problem) for problem in lenient.problems] == [str(error)]
