"""The Java that Spark starts: its path, and whether it is new enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from vde_dagster.base.installing import how_to_install
from vde_dagster.errors import NoSparkError

OLDEST_JAVA = 17
_HINT = f"install Java {OLDEST_JAVA} or newer (a JRE is enough) and put it on PATH or in JAVA_HOME"


def require_pyspark() -> None:
    """Raise NoSparkError if PySpark is not installed, without importing PySpark."""
    if find_spec("pyspark") is None:
        raise NoSparkError("PySpark is not installed", hint=how_to_install())


def check_java() -> int:
    """Return the major version of the Java that Spark will start, or raise NoSparkError."""
    java = find_java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME is '{home}', which has no bin/java" if home else "PATH has no java"
        raise NoSparkError(f"Spark needs Java, but {where}", hint=_HINT)
    version = _version_from_release(java) or _version_from_run(java)
    if version is None:
        raise NoSparkError(f"'{java}' does not run: it prints no version", hint=_HINT)
    if version < OLDEST_JAVA:
        raise NoSparkError(
            f"Spark needs Java {OLDEST_JAVA}, but '{java}' is Java {version}", hint=_HINT
        )
    return version


def find_java() -> Path | None:
    """Return the `java` that Spark's scripts start, from JAVA_HOME or else from PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / ("java.exe" if os.name == "nt" else "java")
        return java if java.exists() else None
    found = shutil.which("java")
    return Path(found) if found else None


def major_version(text: str) -> int | None:
    """Read the major version in a text like `17.0.15`, `1.8.0_412` or `openjdk version "21" …`."""
    match = re.search(r"(?<![\d.])(\d+)(?:\.(\d+))?[\d._]*", text)
    if match is None:
        return None
    first = int(match.group(1))
    return int(match.group(2) or 0) if first == 1 else first


def _version_from_release(java: Path) -> int | None:
    """Read the version in the JDK's file `release`, a hundred times faster than starting Java."""
    release = java.resolve().parent.parent / "release"
    if not release.is_file():
        return None
    match = re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text(errors="replace"), re.M)
    return major_version(match.group(1)) if match else None


def _version_from_run(java: Path) -> int | None:
    try:
        done = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoSparkError(f"'{java}' does not run: {error}", hint=_HINT) from error
    match = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return major_version(match.group(1)) if match else None
