"""The wheel as users install it: by pip, uv and pipx, each into an empty environment."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster_tests.built_wheel import Installed, build_wheel, empty_environment

pytestmark = pytest.mark.proof

INSTALLERS = {
    "pip": ("{python} -m venv pip && pip/bin/python -m pip install --quiet {wheel}", "pip/bin/vde"),
    "uv-tool": ("uv tool install --quiet {wheel}", "bin/vde"),
    "uvx": ("", "uvx --isolated --quiet --from {wheel} vde"),
    "pipx": ("uvx --quiet --from pipx==1.8.0 pipx install --quiet {wheel}", "bin/vde"),
}
"""Command that installs the wheel, and the one that runs it, by the installer's name."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def empty(wheel: Path, tmp_path: Path) -> Iterator[Installed]:
    """An environment without packages; programs that installers make are in its folder."""
    with empty_environment(wheel, tmp_path) as installed:
        folder = installed.home.parent
        installed.root = folder
        installed.variables |= {
            "UV_TOOL_DIR": str(folder / "tools"),
            "UV_TOOL_BIN_DIR": str(folder / "bin"),
            "PIPX_HOME": str(folder / "pipx"),
            "PIPX_BIN_DIR": str(folder / "bin"),
            "UV_PYTHON": sys.executable,
            "PIPX_DEFAULT_PYTHON": sys.executable,
            "PIP_NO_COMPILE": "1",
            "PIP_CONFIG_SETTINGS": "--build-option=--compression=stored",
        }
        yield installed


def test_a_project_is_made_planned_applied_and_queried_with_nothing_but_the_wheel(
    empty: Installed,
) -> None:
    empty.install(f"uv pip install --quiet --python {empty.home} {empty.wheel}")
    empty.vde("init shop")
    empty.root /= "shop"
    empty.variables |= {"VDE_SPARK__WARM": "true", "VDE_SPARK__WARM_MINUTES": "5"}
    try:
        planned = json.loads(empty.vde("plan prod --json"))
        assert len(planned["models"]) == 3
        assert "2 models computed, 3 views created" in empty.vde("apply prod --yes")
        code, printed, errors = empty.run(
            ["vde", "query", "prod", "SELECT sum(orders) FROM marts.daily_revenue", "--json"]
        )
        assert code == 0, errors
        assert json.loads(printed)["rows"] == [[6]]
    finally:
        empty.vde("engine stop")


@pytest.mark.turns(8)
@pytest.mark.parametrize("installer", INSTALLERS)
def test_an_installed_wheel_makes_and_plans_a_project(installer: str, empty: Installed) -> None:
    install, vde = (
        command.format(python=sys.executable, wheel=empty.wheel)
        for command in INSTALLERS[installer]
    )
    if install:
        empty.install(install)

    def run(arguments: str) -> str:
        code, printed, errors = empty.run(f"{vde} {arguments}")
        assert code == 0, errors
        return printed

    assert run("--version").startswith("vde ")
    run("init shop")
    planned = json.loads(run("plan prod --json --project shop"))
    assert len(planned["models"]) == 3
