"""How dbt is called to compile a project, and what its mistakes become; dbt is a script here."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.dbt.conftest import DbtCopy

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
