"""The wheel: the package and nothing else, and it works where it is installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZipFile

import pytest

import vde_dagster
from vde_dagster_tests.built_wheel import ROOT, build_wheel

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


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
    pages = {f"vde_dagster/cli/pages/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert package == ours | pages


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's package, which uses the dependencies of this environment."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(folder), str(wheel)], check=True)
    return folder


def test_its_console_script_makes_and_plans_a_project(installed: Path, tmp_path: Path) -> None:
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


WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            return None
        return super().find_spec(name, path, target)

sys.meta_path[:] = [Without if one is PathFinder else one for one in sys.meta_path]
from vde_dagster.cli.app import main
main(sys.argv[2:])
"""
"""Program that runs `vde` as if some packages were not installed."""


def _run_without(
    installed: Path, folder: Path, packages: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, packages, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.proof
@pytest.mark.parametrize(
    ("package", "command"),
    [("dagster_webserver", "ui"), ("pyspark", "apply prod"), ("pyspark", "test")],
)
def test_a_command_without_a_required_package_prints_how_to_install_it(
    package: str, command: str, installed: Path, wheel: Path, tmp_path: Path
) -> None:
    run = partial(_run_without, installed, tmp_path)
    assert run("nothing", "init", ".").returncode == 0
    done = run(package, *command.split())
    assert done.returncode == 2, done.stdout + done.stderr
    hint = rf"^hint: run .* install {re.escape(str(wheel))}$"
    assert re.search(hint, done.stderr, re.MULTILINE), done.stderr


@pytest.fixture(scope="module")
def distributions() -> ModuleType:
    """The program that builds the distributions of a release."""
    spec = spec_from_file_location("distributions", ROOT / ".ci" / "build_distributions.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _project(text: str) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads(text)["project"]
    return project


def _names(requirements: Iterable[str]) -> set[str]:
    return {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}


HEAVY = "dagster,dagster_pyspark,dagster_shared,dagster_webserver,grpc,py4j,pyspark"


def test_the_slim_distribution_is_the_package_without_spark_and_dagster(
    distributions: ModuleType,
) -> None:
    text = (ROOT / "pyproject.toml").read_text()
    whole, slim = _project(text), _project(distributions.slim(text))
    missing = _names(whole["dependencies"]) - _names(slim["dependencies"])
    assert missing == {
        name.replace("_", "-") for name in HEAVY.replace("grpc", "grpcio").split(",")
    }
    assert slim["name"] == "vde-dagster-slim"
    assert slim["entry-points"] == whole["entry-points"]
    assert slim["version"] == vde_dagster.__version__


def test_a_release_has_urls_and_absolute_addresses_of_pictures(distributions: ModuleType) -> None:
    repository = "https://github.com/owner/name"
    urls = _project(distributions.with_urls((ROOT / "pyproject.toml").read_text(), repository))
    assert {"Documentation", "Changelog", "Issues"} <= urls["urls"].keys()
    page = distributions.absolute((ROOT / "README.md").read_text(), repository)
    pictures = re.findall(r"!\[[^]]*\]\(([^)]*)\)", page)
    assert f"{repository}/raw/main/docs/pictures/plan.png" in pictures
    assert re.findall(r"\]\((?!https://)([^)]*)\)", page) == []


@pytest.mark.proof
def test_planning_and_checking_need_no_spark_and_no_dagster(
    installed: Path, tmp_path: Path
) -> None:
    run = partial(_run_without, installed, tmp_path, HEAVY)
    for command in (
        *("init .", "plan prod", "diff prod", "info", "dag", "lint --rule all", "docs build"),
        *("render marts.daily_revenue", "lineage marts.daily_revenue.revenue", "describe json"),
        *("help quickstart", "lsp --help", "janitor --dry-run"),
    ):
        done = run(*command.split())
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), (command, done.stderr)
