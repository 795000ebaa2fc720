"""What an installation weighs: `python -m benchmarks.install_sizes`.

    python -m benchmarks.install_sizes [--cold]

Builds both wheels, installs each into an empty environment by uv, and prints the number of
distributions, their size (MB of 1,000,000 bytes, without compiled bytecode), the seconds of the
installation and the largest parts. With `--cold` nothing comes from uv's cache, so the time is
mostly that of the download.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
LARGEST = 6


def main() -> None:
    """Print a line for each distribution and extra."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cold", action="store_true", help="download everything again")
    cold = parser.parse_args().cold
    uv = Path(sys.executable).with_name("uv")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build = [sys.executable, str(ROOT / ".ci" / "build_distributions.py"), str(folder)]
        subprocess.run(build, check=True)
        for wheel in sorted(folder.glob("*.whl")):
            place = folder / wheel.name.partition("-")[0]
            subprocess.run([str(uv), "venv", "--quiet", str(place)], check=True)
            began = time.monotonic()
            install = [str(uv), "pip", "install", "--quiet", "--python", str(place), str(wheel)]
            subprocess.run([*install, *(["--no-cache"] if cold else [])], check=True)
            seconds = time.monotonic() - began
            (packages,) = place.glob("lib/python*/site-packages")
            print(_line(place.name.replace("_", "-"), packages, seconds))


def _line(name: str, packages: Path, seconds: float) -> str:
    sizes = {entry.name: _megabytes(entry) for entry in packages.iterdir()}
    count = sum(1 for entry in sizes if entry.endswith(".dist-info"))
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:LARGEST]
    parts = ", ".join(f"{entry} {size:.0f}" for entry, size in largest)
    total = sum(sizes.values())
    return f"{name}: {count} distributions, {total:.0f} MB, {seconds:.0f} s ({parts})"


def _megabytes(entry: Path) -> float:
    files = [entry] if entry.is_file() else entry.rglob("*")
    return sum(f.stat().st_size for f in files if f.is_file() and f.suffix != ".pyc") / 1e6


if __name__ == "__main__":
    main()
