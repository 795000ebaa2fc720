"""The site in a real browser, from its files: nothing is asked of anybody, and nothing runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect, sync_playwright

from vde_dagster.errors import ExecutionError
from vde_dagster.overviews.documentation.gather import gather_document
from vde_dagster.plugins.site.build import site_files, write_site
from vde_dagster.project.selection import select
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake, publish_shop
from vde_dagster_tests.orchestration.browser import keep, open_page
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [pytest.mark.server]

EVIL = "</script><script>window.ran = 1</script><img src=x onerror=window.ran=1>"
FOLDED = "Money <!-- <script>window.ran = 2</script>"
"""What `docs.yml` says of a column."""
SOLD = "What is sold <script>window.ran = 3</script>"
"""What a dashboard says of itself."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of a shop, another version of which is in dev."""
    root = tmp_path_factory.mktemp("shop")
    publish_shop(root)
    folder = ProjectFolder(root)
    folder.edit("models/marts/customers.sql", "GROUP BY customer", "WHERE amount > 1 GROUP BY 1")
    folder.edit("models/marts/customers.sql", "Who ordered", EVIL)
    folder.edit("models/marts/top.sql", "kind FULL", "kind FULL, owner ann, tags (rank)")
    folder.write("models/docs.yml", f"marts.customers:\n  columns:\n    revenue: {FOLDED}\n")
    sales = f"- {{name: Sales, reads: [marts.top], description: '{SOLD}'}}"
    folder.write("exposures.yaml", sales)
    # The site shows whole seconds, and sorts what happened in one of them by name.
    time.sleep(1.1)
    with open_fake(root) as workspace:
        workspace.apply(workspace.plan("dev"))
    time.sleep(1.1)
    with open_fake(root, FakeSpark(failing_audits=["marts.customers"])) as workspace:
        with pytest.raises(ExecutionError):
            workspace.apply(workspace.plan("dev", restate=("marts.customers",)))
        document = gather_document(workspace)
    write_site(site_files(document), root / "docs")
    return root / "docs"


@pytest.fixture
def page(site: Path, tmp_path: Path) -> Iterator[Page]:
    """The first page of the site; the test fails if the browser asks for anything but its files."""
    with sync_playwright() as playwright:
        found = open_page(playwright, tmp_path / "profile")
        found.set_default_timeout(20_000)
        asked: list[str] = []
        said: list[str] = []
        found.on("request", lambda request: asked.append(request.url))
        found.on("console", lambda message: said.append(message.text))
        found.on("pageerror", lambda error: said.append(str(error)))
        found.goto((site / "index.html").as_uri())
        yield found
        keep(found, "site")
        found.context.close()
    beside = [url for url in asked if not url.startswith((site.as_uri(), "data:", "blob:"))]
    assert asked
    assert (beside, said) == ([], [])


def _title(page: Page, text: str) -> None:
    expect(page.locator("h1")).to_have_text(text)


def _contrast(page: Page) -> float:
    """Return the contrast of text and background, as WCAG computes it."""
    found: float = page.evaluate("""() => {
      const light = colour => colour.match(/\\d+/g).slice(0, 3).map(one => one / 255)
        .map(one => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
        .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
      const { color, backgroundColor } = getComputedStyle(document.body);
      const [one, other] = [light(color), light(backgroundColor)].sort((a, b) => b - a);
      return (one + 0.05) / (other + 0.05);
    }""")
    return found


def test_a_reader_without_a_mouse_finds_a_column_and_where_it_comes_from(page: Page) -> None:
    press = page.keyboard.press
    press("/")
    page.keyboard.type("top")
    expect(page.locator("#results [aria-selected=true]")).to_contain_text("marts.top")
    press("Enter")
    _title(page, "marts.top")
    assert page.evaluate("document.activeElement.tagName") == "H1"
    expect(page.get_by_text("rank() OVER")).to_be_visible()

    press("/")
    page.keyboard.type("rank() over")
    expect(page.locator("#results [aria-selected=true]")).to_contain_text("SQL: ")
    press("Escape")

    press("/")
    page.keyboard.type("customer")
    expect(page.locator("#results li").first).to_be_visible()
    for _ in range(20):
        if page.locator("#results [aria-selected=true]").inner_text().startswith("marts.top.cust"):
            break
        press("ArrowDown")
    press("Enter")
    _title(page, "marts.top.customer")
    up = page.locator(".lineage").first
    expect(up.get_by_role("link", name="marts.customers.customer")).to_be_visible()
    further = page.get_by_role("button", name="Further sources of marts.customers.customer")
    further.focus()
    press("Enter")
    expect(up.get_by_role("link", name="staging.orders.customer").first).to_be_visible()
    assert further.get_attribute("aria-expanded") == "true"
    expect(page.get_by_text("inherited from marts.customers.customer")).to_be_visible()


def test_descriptions_are_read_and_not_run(page: Page) -> None:
    outside = page.get_by_role("region", name="Readers outside")
    expect(outside.get_by_role("row", name="Sales")).to_contain_text(SOLD)
    page.get_by_role("link", name="marts.customers", exact=True).last.click()
    expect(page.get_by_text(EVIL, exact=True)).to_be_visible()
    assert page.evaluate(
        "[window.ran, document.querySelectorAll('main img, main script').length]"
    ) == [None, 0]
    expect(page.get_by_text(FOLDED, exact=True)).to_be_visible()
    page.get_by_role("link", name="marts.top", exact=True).first.click()
    _title(page, "marts.top")
    row = page.get_by_role("row").filter(has_text=FOLDED)
    expect(row).to_contain_text("inherited from marts.customers.revenue")
    row.get_by_role("link", name="marts.customers.revenue").click()
    _title(page, "marts.customers.revenue")
    assert page.evaluate("window.ran") is None
    down = page.locator(".lineage").nth(1)
    expect(down.get_by_role("link", name="marts.top.place")).to_be_visible()


def test_environments_publications_differences_and_the_graph_have_pages(page: Page) -> None:
    page.get_by_role("link", name="Environments", exact=True).click()
    _title(page, "Environments")
    matrix = page.locator("table.matrix")
    expect(matrix.locator("tbody tr:visible")).to_have_count(5)
    expect(matrix.locator("tr", has_text="marts.customers")).to_contain_text("modified, breaking")
    page.get_by_label("only models that differ").check()
    expect(matrix.locator("tbody tr:visible")).to_have_count(2)
    page.locator("table").first.get_by_role("link", name="prod", exact=True).click()
    _title(page, "dev against prod")
    expect(page.get_by_text("upstream, in marts.customers")).to_be_visible()
    page.go_back()
    page.get_by_role("link", name="prod@1").last.click()
    _title(page, "prod@1")
    expect(page.get_by_text("This is the first version")).to_be_visible()
    page.get_by_role("link", name="Graph", exact=True).click()
    _title(page, "Graph")
    drawn = """() => {
      const { width, height } = document.querySelector("canvas.graph");
      const pen = document.querySelector("canvas.graph").getContext("2d");
      return new Set(pen.getImageData(0, 0, width, height).data).size > 2;
    }"""
    page.wait_for_function(drawn)
    page.goto(page.url.partition("#")[0] + "#/graph/staging.orders")
    page.locator("svg a", has_text="marts.daily").click()
    _title(page, "marts.daily")


def _card(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def test_the_first_page_lists_versions_changes_failures_and_owners(page: Page) -> None:
    expect(_card(page, "Published").get_by_role("link", name="dev@1")).to_be_visible()
    newest = _card(page, "Changed last").get_by_role("listitem").first
    expect(newest).to_contain_text("dev@1 5 added")
    expect(_card(page, "Failed")).to_contain_text("Plan for dev")
    expect(_card(page, "Failed")).to_contain_text("unique_values(columns=(customer)) found 1 row")
    expect(_card(page, "Late")).to_contain_text("All due intervals are filled.")
    expect(_card(page, "Owners")).to_contain_text("4 models without an owner")
    page.get_by_role("button", name="ann").click()
    rows = _card(page, "All models").locator("tbody tr:visible")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("marts.top")


def test_the_first_page_lists_late_models(tmp_path: Path) -> None:
    publish_shop(tmp_path / "late", skip_backfill=True)
    with open_fake(tmp_path / "late") as workspace:
        write_site(site_files(gather_document(workspace)), tmp_path / "site")
    with sync_playwright() as playwright:
        page = open_page(playwright, tmp_path / "profile")
        page.goto((tmp_path / "site" / "index.html").as_uri())
        expect(_card(page, "Failed")).to_contain_text("No audit and no plan failed.")
        late = _card(page, "Late")
        expect(late).to_contain_text("marts.daily in prod missing 2024-01-01 to 2024-01-06")
        page.context.close()


def test_readers_with_one_name_are_told_apart(tmp_path: Path) -> None:
    publish_shop(tmp_path / "shop")
    folder = ProjectFolder(tmp_path / "shop")
    folder.write("exposures.yaml", "- {name: sales, url: 'https://bi', reads: [marts.top]}")
    folder.write(
        "syncs.yaml",
        "- {name: sales, source: marts.customers, sink: http, key: [customer],"
        " to: {prod: {url: 'https://crm.example'}}}",
    )
    with open_fake(folder.root) as workspace:
        write_site(site_files(gather_document(workspace)), tmp_path / "site")
    with sync_playwright() as playwright:
        page = open_page(playwright, tmp_path / "profile")
        for model, links in (("top", 1), ("customers", 0)):
            page.goto(f"{(tmp_path / 'site' / 'index.html').as_uri()}#/model/marts.{model}")
            outside = page.locator("dt:text-is('Outside') + dd")
            expect(outside).to_have_text("sales")
            expect(outside.get_by_role("link")).to_have_count(links)
        page.context.close()


EXPRESSIONS = (
    *("marts.*", "+marts.top", "staging.orders+", "tag:rank", "tag:R*", "raw.* | marts.daily"),
    *("+marts.daily & ^raw.*", "^marts.top", "+(marts.top | marts.daily)", "(raw.orders)+ & m*"),
    *("-marts.*", "*.or[d-e]ers", "marts.[!d]*", "marts.to?", "MARTS.TOP", "+staging.orders+"),
)
INVALID = ("nothing.here", "marts.top &", "(marts.top", "marts.top marts.daily", "|", "git:main")


def test_the_graph_selects_models_as_plans_do(page: Page, site: Path) -> None:
    with open_fake(site.parent) as workspace:
        models = workspace.project.models
        names = {text: sorted(map(str, select(models, [text]))) for text in EXPRESSIONS}
    page.goto(page.url.partition("#")[0] + "#/graph")
    run = "text => [...selectModels(text)].map(one => site.index.names[one]).sort()"
    assert {text: page.evaluate(run, text) for text in EXPRESSIONS} == names
    both = sorted({*names["tag:rank"], *names["staging.orders+"]})
    assert page.evaluate(run, "tag:rank, staging.orders+") == both
    fails = "text => { try { selectModels(text); return null; } catch (error) { return 1; } }"
    assert [page.evaluate(fails, text) for text in INVALID] == [1] * len(INVALID)

    box = page.get_by_label("Select")
    box.fill("+marts.daily")
    expect(page.get_by_role("heading", level=2)).to_have_text("Selected: 3 of 5 models")
    assert page.url.endswith("#/graph//%2Bmarts.daily")
    page.reload()
    expect(page.get_by_role("heading", level=2)).to_have_text("Selected: 3 of 5 models")
    page.get_by_label("Select").fill("marts.nothing")
    expect(page.get_by_role("alert")).to_have_text("no model matches “marts.nothing”")
    page.get_by_label("Select").fill("")
    canvas = page.locator("canvas.graph")
    canvas.focus()
    canvas.press("ArrowRight")
    expect(page.locator(".told")).to_contain_text("raw.orders SEED, 0 ancestors, 4 descendants")
    canvas.press("ArrowRight")
    expect(page.locator(".told")).to_contain_text("staging.orders VIEW")
    canvas.press("Enter")
    _title(page, "staging.orders")


ROUTES = (
    *("", "graph", "graph//%2Bmarts.top", "graph/staging.orders", "environments"),
    *("model/marts.customers", "model/marts.top/customer", "publication/prod/1"),
    *("difference/dev/prod", "nonsense"),
)
WIDTHS = (360, 420, 768, 1280, 1920)
LEVELS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")


def test_no_page_overflows_a_screen_from_360_pixels_on(page: Page) -> None:
    wide = []
    for route in ROUTES:
        page.goto(page.url.partition("#")[0] + f"#/{route}")
        page.wait_for_selector("h1")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            beyond = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            if beyond > 0:
                wide.append((route, width, beyond))
    assert wide == []
    nav = page.locator("header nav").bounding_box()
    assert nav is not None
    assert nav["x"] + nav["width"] >= 1880, "the bar fills a wide screen"


def test_axe_finds_nothing_on_any_page_in_either_color_scheme(page: Page) -> None:
    axe = (files("axe_playwright_python") / "axe.min.js").read_text()
    options = {"runOnly": [*LEVELS], "resultTypes": ["violations"], "preload": False}
    found = []
    for route in ROUTES:
        page.goto(page.url.partition("#")[0] + f"#/{route}")
        page.wait_for_selector("h1")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.evaluate(axe)
            result = page.evaluate("options => axe.run(document, options)", options)
            found += [
                (route, scheme, one["id"], one["nodes"][0]["target"])
                for one in result["violations"]
            ]
    assert found == []
    page.evaluate("document.querySelector('main').innerHTML = '<img src=\"data:,\">'")
    broken = page.evaluate("options => axe.run(document, options)", options)
    assert "image-alt" in {one["id"] for one in broken["violations"]}, "axe looks at the page"


def test_results_of_audits_name_their_plan_and_the_environments_of_the_table(page: Page) -> None:
    page.goto(page.url.partition("#")[0] + "#/model/marts.daily")
    audits = page.get_by_role("region", name="Audits", exact=True)
    expect(audits).to_contain_text("by prod-")
    expect(audits).to_contain_text("table of prod, dev")


def test_a_version_is_compared_with_an_earlier_one(tmp_path: Path) -> None:
    publish_shop(tmp_path)
    folder = ProjectFolder(tmp_path)
    edits = (
        ("models/marts/customers.sql", "GROUP BY customer", "WHERE amount > 1 GROUP BY 1"),
        ("models/marts/top.sql", "AS place", "AS place, 1 AS one"),
        ("models/marts/customers.sql", "WHERE amount > 1 GROUP BY 1", "GROUP BY customer"),
    )
    with open_fake(tmp_path) as workspace:
        for path, old, new in edits:
            folder.edit(path, old, new)
            workspace.reload()
            workspace.apply(workspace.plan("prod"))
        write_site(site_files(gather_document(workspace)), tmp_path / "docs")
    with sync_playwright() as playwright:
        page = open_page(playwright, tmp_path / "profile")
        page.goto((tmp_path / "docs" / "index.html").as_uri() + "#/publication/prod/4")
        page.get_by_role("link", name="prod@1", exact=True).click()
        _title(page, "prod@4 against prod@1")
        changed = page.get_by_role("row").filter(has=page.get_by_role("link", name="marts.top"))
        expect(changed.first).to_contain_text("+ one")
        back = page.get_by_role("region", name="Changed and back")
        expect(back.get_by_role("link", name="marts.customers")).to_be_visible()
        page.goto(page.url.partition("#")[0] + "#/difference/prod@2/prod@1")
        _title(page, "prod@2 against prod@1")
        expect(page.get_by_text("upstream, in marts.customers")).to_be_visible()
        page.goto(page.url.partition("#")[0] + "#/difference/prod@2/prod@9")
        expect(page.get_by_text("difference of prod@2 and prod@9")).to_be_visible()
        page.context.close()


def test_versions_across_environments_are_compared_in_definitions_and_rows(tmp_path: Path) -> None:
    publish_shop(tmp_path)
    folder = ProjectFolder(tmp_path)
    folder.edit("models/marts/customers.sql", "GROUP BY customer", "WHERE amount > 1 GROUP BY 1")
    with open_fake(tmp_path) as workspace:
        workspace.apply(workspace.plan("dev"))
        folder.edit("models/marts/top.sql", "AS place", "AS place, 1 AS one")
        workspace.reload()
        workspace.apply(workspace.plan("dev"))
        document = gather_document(workspace, compare=["prod@1", "dev@1"])
    write_site(site_files(document), tmp_path / "docs")
    with sync_playwright() as playwright:
        page = open_page(playwright, tmp_path / "profile")
        page.goto((tmp_path / "docs" / "index.html").as_uri() + "#/environments")
        page.get_by_role("link", name="dev@1 against prod@1", exact=True).click()
        _title(page, "dev@1 against prod@1")
        defined = page.get_by_role("region", name="Definitions")
        expect(defined.get_by_role("link", name="marts.customers")).to_be_visible()
        expect(defined.get_by_text("+ one")).to_have_count(0)
        data = page.get_by_role("region", name="Data").get_by_role("row")
        expect(data.filter(has_text="marts.customers")).to_be_visible()
        expect(page.get_by_text("definitions and data")).to_be_visible()
        page.get_by_role("link", name="The other way").click()
        _title(page, "prod@1 against dev@1")
        page.goto(page.url.partition("#")[0] + "#/difference/prod@1/prod")
        _title(page, "prod@1 against prod")
        expect(page.get_by_text("All models are defined alike.")).to_be_visible()
        page.context.close()


def test_colours_follow_the_system_and_the_button(page: Page) -> None:
    shade = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    light = page.evaluate(shade)
    assert _contrast(page) >= 7
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(shade)
    assert (light != dark, _contrast(page) >= 7) == (True, True)
    page.get_by_role("button", name="Use light colors").click()
    assert page.evaluate(shade) == light
    page.reload()
    expect(page.get_by_role("button", name="Use dark colors")).to_be_visible()
    assert page.evaluate(shade) == light
    page.emulate_media(media="print")
    expect(page.locator("header")).to_be_hidden()


def test_an_address_that_leads_nowhere_says_so(page: Page) -> None:
    for route in ("#/model/not.there", "#/publication/prod/99", "#/nonsense", "#/model/%E0%A4%A"):
        page.goto(page.url.partition("#")[0] + route)
        _title(page, "Nothing here")
