"""Hints on extras are commands that work for the installation that prints them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base import installing
from vde_dagster.base.installing import how_to_install, requirement_of


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
            {"url": "file:///w/vde_dagster-0.1.0-py3-none-any.whl", "archive_info": {}},
            "'/w/vde_dagster-0.1.0-py3-none-any.whl[serve]'",
        ),
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
    assert requirement_of("serve", origin) == requirement


def test_the_command_installs_into_the_running_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installing, "_origin", lambda: None)
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
