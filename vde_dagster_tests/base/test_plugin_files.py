"""The files that determine how other distributions' plug-ins behave."""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from vde_dagster.base import plugins
from vde_dagster.base.plugins import Plugin, loaded_plugin_files

PACKAGE = "vde_plugin_of_this_test"


def test_a_module_that_a_plug_in_imports_later_is_among_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / PACKAGE
    folder.mkdir()
    for name in ("__init__", "first", "later"):
        (folder / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    entry = EntryPoint("first", f"{PACKAGE}.first", "vde_dagster.macros")
    plugin = Plugin("macros", "first", "toy", "1.0", entry, "METADATA")

    entry.load()
    assert str(folder / "first.py") not in loaded_plugin_files(), "no seam imported the plug-in yet"
    monkeypatch.setattr(plugins, "_imported", [plugin])
    first = {str(folder / "__init__.py"), str(folder / "first.py"), "METADATA"}
    assert loaded_plugin_files() == first
    importlib.import_module("colorsys")
    assert loaded_plugin_files() == first
    importlib.import_module(f"{PACKAGE}.later")
    assert loaded_plugin_files() == {*first, str(folder / "later.py")}
