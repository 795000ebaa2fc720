"""How dbt is called to compile a project, and what its mistakes become; dbt is a script here."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.dbt.conftest import MANIFEST, DbtCopy

ASKS = """#!/bin/sh
echo "$@" > "{told}"
echo "Encountered an error:"
echo "Runtime Error in model visits (models/visits.sql)"
echo "  connection never acquired for thread (1, 2)"
exit 2
"""


@pytest.mark.parametrize("introspect", [False, True])
def test_a_project_that_asks_its_warehouse_says_what_to_set(
    shop: DbtCopy, tmp_path: Path, introspect: bool
) -> None:
    told, dbt = tmp_path / "told", tmp_path / "dbt"
    dbt.write_text(ASKS.format(told=told))
    dbt.chmod(0o755)
    settings = f"executable = '{dbt}'\nintrospect = {str(introspect).lower()}\n"
    (shop.root / "pyproject.toml").write_text(f"[tool.vde]\n[tool.vde.dbt]\n{settings}")

    with pytest.raises(ProjectError, match="connection never acquired") as raised:
        load_project(shop.root)

    assert "introspect = true under [tool.vde.dbt]" in str(raised.value)
    assert ("--no-introspect" in told.read_text().split()) is not introspect


FAILS_UNTIL = """#!/bin/sh
if [ ! -e "{mended}" ]; then
  echo "Encountered an error:"
  echo "Runtime Error"
  echo "  Could not find adapter type shop!"
  exit 2
fi
while [ "$1" != "--target-path" ]; do shift; done
mkdir -p "$2"
cp "{manifest}" "$2/manifest.json"
touch "$2/partial_parse.msgpack"
"""


def test_a_compile_that_failed_is_tried_again_though_no_file_changed(
    shop: DbtCopy, tmp_path: Path
) -> None:
    """What it failed for may be installed since, which no file of the project says."""
    mended, dbt = tmp_path / "mended", tmp_path / "dbt"
    manifest = tmp_path / "manifest.json"
    (shop.root / MANIFEST).rename(manifest)
    dbt.write_text(FAILS_UNTIL.format(mended=mended, manifest=manifest))
    dbt.chmod(0o755)
    (shop.root / "pyproject.toml").write_text(f"[tool.vde]\n[tool.vde.dbt]\nexecutable = '{dbt}'\n")
    mended.touch()
    whole = sorted(map(str, load_project(shop.root, strict=False).models))
    model = shop.root / "models/marts/customers.sql"
    text = model.read_text()
    model.write_text(f"{text}\n-- edited")
    mended.unlink()
    for _ in range(2):
        with pytest.raises(ProjectError, match="Could not find adapter type shop!"):
            load_project(shop.root)

    model.write_text(text)
    mended.touch()

    assert sorted(map(str, load_project(shop.root, strict=False).models)) == whole
