"""The Chromium of the browser tests: an installed one, or Playwright's download.

`python -m vde_dagster_tests.orchestration.find_browser` prints its path; the exit code is 1 if
there is none that starts.
"""

from __future__ import annotations

import shutil
import subprocess
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
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        downloaded = playwright.chromium.executable_path
    if Path(downloaded).exists():
        yield downloaded


def _starts(path: str) -> bool:
    asked = subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False)
    return asked.returncode == 0


if __name__ == "__main__":
    found = find_browser()
    print(found or "no browser")
    raise SystemExit(found is None)
