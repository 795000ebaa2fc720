"""The wheel of this tree, for tests that install it, and environments that have nothing else.

Environments lie in this one, on the file system of uv's cache in most cases, so that uv links the
files of packages, and have the versions of the locks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
UV = Path(sys.executable).with_name("uv")
_PIN = re.compile(r"^([\w-]+)(==\S+(?: ;.*)?) \\$", re.MULTILINE)
_LOCKS = ("requirements.lock", "requirements-dev.lock")
_NOT_OF_DBT = ("importlib-metadata", "pathspec", "protobuf")
"""Packages whose versions in the locks dbt excludes, and which it installs itself."""
_BUILD = "import sys; from setuptools.build_meta import *; print(build_wheel(sys.argv[1]))"
_JUNK = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info", "build", "dist", "metastore_db")


def build_wheel(folder: Path) -> Path:
    """Build the wheel in an empty folder, from a copy of the tree, because builds leave files."""
    source = folder / "source"
    shutil.copytree(ROOT, source, ignore=_JUNK)
    built = subprocess.run(
        [sys.executable, "-c", _BUILD, str(folder)],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder / built.stdout.splitlines()[-1]


@dataclass
class Installed:
    """An environment of the wheel, and a project to run its commands in."""

    home: Path
    wheel: Path
    constraints: Path
    root: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables, without those that lead to the packages of this Python."""
        path = f"{self.home / 'bin'}{os.pathsep}{os.environ['PATH']}{os.pathsep}{UV.parent}"
        versions, settings = str(self.constraints), self.constraints.with_name("uv.toml")
        own = {
            "PATH": path,
            "PIP_CONSTRAINT": versions,
            "UV_CONSTRAINT": versions,
            "UV_CONFIG_FILE": str(settings),
            **self.variables,
        }
        left_out = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"}
        return {k: v for k, v in os.environ.items() if k not in left_out} | own

    def run(self, command: str | list[str], folder: Path | None = None) -> tuple[int, str, str]:
        """Run a program, or a shell's command; return the exit code and both outputs."""
        done = subprocess.run(
            command,
            shell=isinstance(command, str),
            cwd=folder or self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def vde(self, arguments: str) -> str:
        """Run a command of `vde` that succeeds, and return what it prints."""
        code, printed, errors = self.run(["vde", *arguments.split()])
        assert code == 0, errors
        return printed

    def install(self, command: str) -> None:
        """Run a command of uv, from uv's cache where that is possible."""
        for offline in ("1", "0"):
            self.variables["UV_OFFLINE"] = offline
            code, _, errors = self.run(command)
            if code == 0:
                break
        assert code == 0, errors

    def start(self, arguments: str) -> subprocess.Popen[bytes]:
        """Start a command of `vde` that serves."""
        return subprocess.Popen(
            ["vde", *arguments.split()],
            cwd=self.root,
            env={**self.environment, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )


@contextmanager
def empty_environment(wheel: Path, folder: Path) -> Iterator[Installed]:
    """Make an environment without packages, and remove it.

    Args:
        folder: Folder in which its commands run.
    """
    locked = "".join((ROOT / name).read_text() for name in _LOCKS)
    pins = [f"{name}{pin}\n" for name, pin in _PIN.findall(locked) if name not in _NOT_OF_DBT]
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(pins))
    home = Path(tempfile.mkdtemp(prefix="wheel-", dir=sys.prefix))
    installed = Installed(home / "environment", wheel, constraints, folder)
    # As in pyproject.toml: PySpark's jars are not compressed again.
    settings = folder / "uv.toml"
    settings.write_text(
        '[config-settings-package]\npyspark = { --build-option = "--compression=stored" }\n'
    )
    try:
        installed.install(f"uv venv --quiet --python {sys.executable} {installed.home}")
        yield installed
    finally:
        shutil.rmtree(home)
