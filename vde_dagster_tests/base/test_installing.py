"""Hints on extras are commands that work for the installation that prints them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base import installing
from vde_dagster.base.installing import extra_requirement, how_to_install


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (None, "'vde-dagster[serve]'"),
        (
            {"url": "file:///home/a%20b/vde", "dir_info": {"editable": True}},
            "-e '/home/a b/vde[serve]'",
        ),
        ({"url": "file:///src/vde", "dir_info": {}}, "'/src/vde[serve]'"),
        (
            {"url": "https://host/vde_dagster-0.1.0-py3-none-any.whl", "archive_info": {}},
            "'vde-dagster[serve] @ https://host/vde_dagster-0.1.0-py3-none-any.whl'",
        ),
        (
            {"url": "https://git.example/vde", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "'vde-dagster[serve] @ git+https://git.example/vde@abc'",
        ),
        (
            {
                "url": "ssh://git@git.example/vde",
                "vcs_info": {"vcs": "git", "commit_id": "abc", "requested_revision": "v1"},
            },
            "'vde-dagster[serve] @ git+ssh://git@git.example/vde@v1'",
        ),
    ],
)
def test_an_extra_is_named_as_the_package_was_installed(
    origin: dict[str, Any] | None, requirement: str
) -> None:
    assert extra_requirement("serve", origin) == requirement


def test_the_command_installs_into_the_running_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installing, "_read_origin", lambda: ("vde-dagster", None))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    python, found = sys.executable, "'vde-dagster[sign]'"

    def with_pip(path: Path | None, module: object) -> str:
        monkeypatch.setattr(installing.shutil, "which", lambda name: path and str(path))
        monkeypatch.setattr(installing, "find_spec", lambda name: module)
        return how_to_install("sign")

    here, elsewhere = tmp_path / "bin" / "pip", Path("/usr/bin/pip")
    assert with_pip(here, True) == f"run pip install {found}"
    assert with_pip(elsewhere, True) == f"run {python} -m pip install {found}"
    assert with_pip(None, True) == f"run {python} -m pip install {found}"
    assert with_pip(elsewhere, None) == f"run uv pip install --python {python} {found}"
    (tmp_path / "uv-receipt.toml").touch()
    assert with_pip(None, None) == f"run uv tool install {found}"
    (tmp_path / "uv-receipt.toml").write_text(
        '[tool]\nrequirements = [{ name = "vde-dagster", extras = ["postgres", "serve"] }]\n'
    )
    assert with_pip(None, None) == "run uv tool install 'vde-dagster[postgres,serve,sign]'"


def test_environments_of_uvx_and_pipx_have_commands_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installing, "_read_origin", lambda: ("vde-dagster", None))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "archive-v0" / "Xy12"))
    assert how_to_install("serve") == "run uvx --from 'vde-dagster[serve]' vde …"
    pipx = tmp_path / "venvs" / "vde-dagster"
    pipx.mkdir(parents=True)
    (pipx / "pipx_metadata.json").touch()
    monkeypatch.setattr(sys, "prefix", str(pipx))
    expected = "run pipx runpip vde-dagster install 'vde-dagster[serve]'"
    assert how_to_install("serve") == expected


def test_the_slim_distribution_names_itself_and_the_one_with_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installing, "_read_origin", lambda: ("vde-dagster-slim", None))
    assert how_to_install("editor").endswith(" install 'vde-dagster-slim[editor]'")
    hint = how_to_install()
    assert hint.startswith("vde-dagster-slim leaves out Spark and Dagster; run ")
    assert hint.endswith(" install vde-dagster")


def test_a_wheel_that_is_gone_is_named_by_its_package(tmp_path: Path) -> None:
    wheel = tmp_path / "vde_dagster-0.1.0-py3-none-any.whl"
    origin = {"url": wheel.as_uri(), "archive_info": {}}
    assert extra_requirement("serve", origin) == "'vde-dagster[serve]'"
    wheel.touch()
    assert extra_requirement("serve", origin) == f"'{wheel}[serve]'"
