"""The wheel: the package and nothing else, and it works where it is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
JUNK = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info", "build", "dist", "spark-warehouse")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built beside it: a build leaves files where it works."""
    source = tmp_path_factory.mktemp("source") / "tree"
    target = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, source, ignore=JUNK)
    built = subprocess.run(
        [sys.executable, "-c", BUILD, str(target)],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return target / built.stdout.splitlines()[-1]


def test_it_holds_the_package_and_no_tests(wheel: Path) -> None:
    with ZipFile(wheel) as opened:
        names = set(opened.namelist())
    roots = {name.partition("/")[0] for name in names}
    assert {root for root in roots if not root.endswith(".dist-info")} == {"vde_dagster"}
    package = {name for name in names if name.startswith("vde_dagster/")}
    ours = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "vde_dagster").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert package == ours


def test_its_console_script_makes_and_plans_a_project(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(installed), str(wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    def vde(*arguments: str) -> str:
        done = subprocess.run(
            [installed / "bin" / "vde", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    made = json.loads(vde("init", "shop", "--json"))
    assert "definitions.py" in made["files"]
    assert not [path for path in made["files"] if "__pycache__" in path]
    planned = json.loads(vde("plan", "prod", "--project", "shop", "--json"))
    assert len(planned["models"]) == 3
    where = "import vde_dagster; print(vde_dagster.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == str(installed / "vde_dagster" / "__init__.py")
