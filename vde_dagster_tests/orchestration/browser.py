"""A headless browser; Debian's package `chromium` provides it."""

from __future__ import annotations

import shutil
from pathlib import Path

from playwright.sync_api import Page, Playwright

SECONDS = 60_000
"""How long to wait for what is to appear on a page, in milliseconds."""

_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def open_page(playwright: Playwright, profile: Path) -> Page:
    """Open a page of a fresh browser.

    Args:
        playwright: The driver.
        profile: A folder for the browser's files; it need not exist.
    """
    chromium = shutil.which("chromium")
    assert chromium, "install the browser: apt-get install chromium"
    context = playwright.chromium.launch_persistent_context(
        profile,
        executable_path=chromium,
        args=_FLAGS,
        viewport={"width": 1500, "height": 950},
    )
    page = context.new_page()
    page.set_default_timeout(SECONDS)
    return page
