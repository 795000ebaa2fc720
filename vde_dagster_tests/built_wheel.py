"""The wheel of this tree, for tests that install it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
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
