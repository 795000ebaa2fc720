"""What a person does on Dagster's pages with mouse and keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from playwright.sync_api import Locator, Page, expect

from vde_dagster_tests.orchestration.browser import SECONDS, keep
from vde_dagster_tests.orchestration.servers import Dagster

_RETRY = 2_000.0
"""Milliseconds."""


def open_launchpad(page: Page, dagster: Dagster, job: str) -> None:
    """Open a job's form and wait until it can be edited."""
    page.goto(f"{dagster.url}/locations/vde/jobs/{job}/playground")
    expect(page.locator(".CodeMirror-line").first).to_be_visible(timeout=SECONDS)


def line_with(page: Page, text: str) -> Locator:
    """Find the line of the form that holds a text."""
    return page.locator(".CodeMirror-line").filter(has_text=text)


def retype(page: Page, old: str, new: str) -> None:
    """Write a line of the form anew, its indentation left as it is."""
    _go_to_end(page, old)
    page.keyboard.press("Shift+Home")
    _type(page, new)


def add_below(page: Page, line: str, new: str) -> None:
    """Write a line below another one of the form."""
    _go_to_end(page, line)
    page.keyboard.press("Enter")
    _type(page, new)


def scaffold(page: Page) -> None:
    """Let the form write the fields that must be given."""
    page.get_by_role("button", name="Scaffold missing config").click()
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("dialog")).to_be_hidden(timeout=SECONDS)


def _go_to_end(page: Page, line: str) -> None:
    line_with(page, line).click()
    expect(page.locator(".CodeMirror-focused")).to_be_visible(timeout=SECONDS)
    page.keyboard.press("End")


def _type(page: Page, text: str) -> None:
    page.keyboard.type(text)
    page.keyboard.press("Escape")  # completions that are still offered would take the next key
    expect(line_with(page, text)).to_be_visible(timeout=SECONDS)


def launch_run(page: Page, dagster: Dagster, *, name: str) -> None:
    """Launch the form, with a picture of it, and watch its run until it ended well."""
    keep(page, f"{name}-form")
    page.get_by_role("button", name="Launch Run").click()
    watch_run(page, dagster)
    keep(page, name)


def watch_run(page: Page, dagster: Dagster) -> None:
    """Look at a run's page until it says that the run ended well."""
    run = run_of(page)
    with looking_away(page):
        dagster.succeed(run)
    expect(page.get_by_text("Success", exact=True).first).to_be_visible(timeout=SECONDS)


@contextmanager
def looking_away(page: Page) -> Iterator[None]:
    """Leave a page while something works: drawing its clocks takes half of a processor."""
    url = page.url
    page.goto("about:blank")
    yield
    page.goto(url)


def run_of(page: Page) -> str:
    """Return the run whose page is opened by what was just clicked."""
    page.wait_for_url(re.compile(r"/runs/[0-9a-f-]{36}"))
    return page.url.rsplit("/", 1)[1].split("?")[0]


def open_partitions(page: Page, dagster: Dagster, asset: str, text: str) -> None:
    """Open an asset's partitions once they show a text, such as `Missing (3)`."""
    page.goto(f"{dagster.url}/assets/{asset}?view=partitions")
    expect(_shown(page, text)).to_be_visible(timeout=SECONDS)


def _shown(page: Page, text: str) -> Locator:
    """Find a text in a list, where long names are cut in their middle and hidden as a whole."""
    tail = text if len(text) <= 20 else text[-8:]
    return page.get_by_text(tail).locator("visible=true").first


def choose(page: Page, partition: str) -> None:
    """Choose a partition in the list of the asset's page."""
    _shown(page, partition).click()
    expect(page).to_have_url(re.compile(f"partition={re.escape(partition)}"), timeout=SECONDS)


def materialize(page: Page) -> Locator:
    """Open the dialog that fills what is chosen on the asset's page."""
    page.get_by_role("button", name="Materialize…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible(timeout=SECONDS)
    return dialog


def materialize_in_lineage(page: Page, dagster: Dagster, asset: str) -> Locator:
    """Choose an asset of times in its group's lineage, and all snapshots in the dialog."""
    group, name = asset.split("/")
    page.goto(f"{dagster.url}/locations/vde/asset-groups/{group}/lineage")
    page.locator("foreignObject").get_by_text(name, exact=True).first.click()
    page.get_by_role("button", name="Materialize selected").click()
    dialog = page.get_by_role("dialog")
    # A dimension of times looks like one of names until the dialog has loaded the partitions.
    nothing = dialog.get_by_text("Select a partition or create one")
    expect(nothing).to_have_count(1, timeout=SECONDS)
    # Until the names are loaded, too, the button selects nothing.
    for _ in range(int(SECONDS / _RETRY)):
        dialog.get_by_role("button", name="All", exact=True).first.click()
        with suppress(AssertionError):
            expect(nothing).to_have_count(0, timeout=_RETRY)
            break
    return dialog


def materialize_group(page: Page, dagster: Dagster, group: str) -> Locator:
    """Open the dialog that materialises all that a group's lineage shows."""
    page.goto(f"{dagster.url}/locations/vde/asset-groups/{group}/lineage")
    page.get_by_role("button", name="Materialize all").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible(timeout=SECONDS)
    return dialog


def choose_only_missing(dialog: Locator, told: str) -> None:
    """Choose all times in a dialog, and of them those that lack data."""
    dialog.get_by_role("button", name="All", exact=True).last.click()
    dialog.get_by_text("Backfill only failed and missing").click()
    expect(dialog.get_by_text(told)).to_be_visible(timeout=SECONDS)


def terminate(page: Page, *, name: str) -> None:
    """End the run whose page is open."""
    page.get_by_role("button", name="Terminate").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible(timeout=SECONDS)
    keep(page, f"{name}-dialog")
    dialog.get_by_role("button", name=re.compile("^Terminate")).click()


def launch(page: Page, dialog: Locator, label: str, *, name: str) -> None:
    """Launch what a dialog shows, with a picture of it, and follow the link to it."""
    button = dialog.get_by_role("button", name=label)
    expect(button).to_be_enabled(timeout=SECONDS)
    keep(page, f"{name}-dialog")
    button.click()
    page.get_by_text("View", exact=True).click()
