"""Typical mistakes are found when a project is planned, all at once, without a JVM.

A case is a file of `fixtures/mistakes/`: sections `=== path` with the project's files, beside those
of `shop.files`, then `=== finds` with the messages, one a line, that `vde plan` gives, and where it
makes sense `=== right path` with the same files as they were meant, which give no message, and
`=== mended path` with what `vde lint --fix` makes of a file.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.execution.project_files.fixing import fix_project
from vde_dagster.execution.workspace import Workspace

FIXTURES = Path(__file__).parents[1] / "fixtures" / "mistakes"
CASES = sorted(FIXTURES.glob("*.case"))
RIGHT, MENDED = "right ", "mended "


def sections(path: Path) -> dict[str, str]:
    """Read a file of sections."""
    parts = re.split(r"^=== (.+)\n", path.read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def base() -> dict[str, str]:
    """Return the files that all cases share."""
    return sections(FIXTURES / "shop.files")


def write(root: Path, files: Mapping[str, str]) -> None:
    """Write files into a folder."""
    for name, text in files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def plan_of(root: Path) -> list[str]:
    """Plan a project, and return what is said of its mistakes."""
    with Workspace.open(root) as workspace:
        try:
            plan = workspace.plan("dev", save=False)
        except ProjectError as error:
            return [f"error {mistake}" for mistake in error.mistakes]
        assert not workspace.started_engine
        return [f"warning {warning}" for warning in plan.warnings]


@pytest.fixture(autouse=True)
def _no_settings_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("VDE_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all cases share, planned: what is read of files that a case leaves is remembered."""
    root = tmp_path_factory.mktemp("planned") / "shop"
    write(root, base())
    assert plan_of(root) == []
    return root


@pytest.fixture
def shop(planned: Path, tmp_path: Path) -> Path:
    """A copy."""
    return Path(shutil.copytree(planned, tmp_path / "shop"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_typical_mistake_is_found_when_planning(path: Path, shop: Path) -> None:
    case = sections(path)
    expected = case.pop("finds").splitlines()
    write(shop, {name: text for name, text in case.items() if not name.startswith((RIGHT, MENDED))})
    assert plan_of(shop) == expected
    assert expected
    for line in expected:
        assert re.match(r"(error|warning) [\w./]+:\d", line) or "pyproject.toml" in line
    # What a process has remembered is told again by the next one.
    assert plan_of(shop) == expected


@pytest.mark.parametrize(
    "path", [p for p in CASES if "\n=== right " in p.read_text()], ids=lambda path: path.stem
)
def test_what_was_meant_gives_no_message(path: Path, shop: Path) -> None:
    case = sections(path)
    write(shop, {n.removeprefix(RIGHT): t for n, t in case.items() if n.startswith(RIGHT)})
    assert plan_of(shop) == []


@pytest.mark.proof
@pytest.mark.parametrize(
    "path", [p for p in CASES if not p.stem.startswith("setting_")], ids=lambda path: path.stem
)
def test_fixes_are_made_and_make_no_other_mistakes(path: Path, shop: Path) -> None:
    case = sections(path)
    del case["finds"]
    mended = {n.removeprefix(MENDED): case[n] for n in case if n.startswith(MENDED)}
    files = {name: text for name, text in case.items() if not name.startswith((RIGHT, MENDED))}
    write(shop, files)
    before = {re.sub(r":[\d:]+", "", line) for line in plan_of(shop)}
    with Workspace.open(shop) as workspace:
        made = fix_project(workspace)
    assert made.texts == mended
    for name, text in {**files, **mended}.items():
        assert (shop / name).read_text() == text
    after = {re.sub(r":[\d:]+", "", line) for line in plan_of(shop)}
    assert {line for line in after - before if line.startswith("error")} == set()
    assert bool(before - after) == bool(mended)


def test_there_are_fifty_typical_mistakes() -> None:
    assert len(CASES) >= 50
