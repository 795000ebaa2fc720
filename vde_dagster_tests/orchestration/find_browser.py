"""The Chromium of the browser tests: an installed one, or Playwright's download.

`python -m vde_dagster_tests.orchestration.find_browser` prints its path; the exit code is 1 if
there is none that starts, or if Playwright does not start.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

NAMES = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    *("chrome", "microsoft-edge"),
)


@cache
def find_browser() -> str | None:
    """Return the path of the first browser that starts."""
    return next(filter(_starts, _candidates()), None)


def _candidates() -> Iterator[str]:
    yield from filter(None, map(shutil.which, NAMES))
    if not driver_starts():
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        downloaded = playwright.chromium.executable_path
    if Path(downloaded).exists():
        yield downloaded


def driver_starts() -> bool:
    """Return whether Playwright's Node.js starts, which needs libatomic."""
    asked = [sys.executable, "-m", "playwright", "--version"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def _starts(path: str) -> bool:
    asked = subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False)
    return asked.returncode == 0


if __name__ == "__main__":
    found = find_browser()
    missing = "no browser" if found is None else "" if driver_starts() else "no libatomic"
    print(missing or found)
    raise SystemExit(bool(missing))
