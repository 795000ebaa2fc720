"""A headless browser for tests of pages.

Screenshots are kept in the folder named by `VDE_TEST_SCREENSHOTS`, if it is set.
"""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import Page, Playwright

from vde_dagster_tests.orchestration.find_browser import find_browser

SECONDS = 120_000
"""How long to wait for what is to appear on a page, in milliseconds."""

WIDTH = 1400
"""Pixels of a usual screen, on which nothing may be cut off."""

HEIGHT = 950

_CUT_OFF = """
() => [...document.querySelectorAll("table table, table pre, table p, table li, table h2")]
  .filter(found => {
    const right = found.getBoundingClientRect().right;
    let edge = innerWidth;
    for (let box = found.parentElement; box; box = box.parentElement)
      if (getComputedStyle(box).overflowX !== "visible")
        edge = Math.min(edge, box.getBoundingClientRect().right);
    return right > edge + 1;
  })
  .map(found => found.innerText.slice(0, 80))
"""
"""What of the metadata of a page lies beyond the right edge of what shows it."""

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
    chromium = find_browser()
    assert chromium, "no Chromium is installed: run `.ci/find-browser .venv/bin/python`"
    context = playwright.chromium.launch_persistent_context(
        profile,
        executable_path=chromium,
        args=_FLAGS,
        viewport={"width": WIDTH, "height": HEIGHT},
    )
    page = context.new_page()
    page.set_default_timeout(SECONDS)
    return page


def cut_off(page: Page) -> list[str]:
    """Return what of the metadata on a page cannot be read without scrolling sideways."""
    assert page.locator("table table").count(), "there is nothing to measure"
    return list(page.evaluate(_CUT_OFF))


def keep(page: Page, name: str) -> None:
    """Keep a screenshot as an artefact of the test run."""
    folder = os.environ.get("VDE_TEST_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png", animations="disabled")
