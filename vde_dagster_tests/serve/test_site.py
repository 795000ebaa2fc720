"""Built documentation sites behind tokens: who sees which, and in a browser."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from vde_dagster_tests.orchestration.browser import open_page
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.served_process import Served, serving_here, vde
from vde_dagster_tests.serve.shops import FILES, publish

pytestmark = pytest.mark.server

Site = tuple[Served, dict[str, str]]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server on a project with sites of production and of its first version, and tokens."""
    folder = ProjectFolder(tmp_path_factory.mktemp("sites") / "shop", FILES)
    publish(folder)
    publish(folder, environment="dev")
    vde("docs", "build", "prod", root=folder.root)
    vde("docs", "build", "prod@1", root=folder.root)
    (folder.root / "build" / "docs-prod" / "data" / "notes.txt").write_text("for nobody")
    with serving_here(folder.root, log=folder.root / "access.log") as server:
        assert server.ask("/site/prod/").status == 200, "open while there is no token"
        assert server.ask("/site/prod/", Host="elsewhere.example").status == 403
        ways = {
            "prod": ("create", "prod"),
            "dev": ("create", "dev"),
            "some": ("create", "prod", "--filter", "tenant = 7"),
        }
        yield (
            server,
            {name: vde("token", *way, root=folder.root)["token"] for name, way in ways.items()},
        )


def _basic(token: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"anybody:{token}".encode()).decode()}


ANSWERS = {
    ("prod", "/site/prod/"): 200,
    ("prod", "/site/prod/data/index.js"): 200,
    ("prod", "/site/prod@1/index.html"): 200,
    ("prod", "/site/prod@2/"): 404,
    ("prod", "/site/dev/"): 403,
    ("dev", "/site/prod/"): 403,
    ("dev", "/site/dev/"): 404,
    ("some", "/site/prod/"): 403,
    ("none", "/site/prod/"): 401,
    ("none", "/site/prod/site.js"): 401,
    ("prod", "/site/prod/data/notes.txt"): 404,
    ("prod", "/site/prod/..%2F..%2Fpyproject.toml"): 404,
    ("prod", "/site/prod/../../models/index.js"): 404,
    ("prod", "/site/prod%2F..%2Fdocs-prod/index.html"): 404,
    ("prod", "/site/prod@..%2F/index.html"): 404,
}


@pytest.mark.parametrize(("who", "path"), ANSWERS)
def test_a_site_is_its_environments_readers(guarded: Site, who: str, path: str) -> None:
    server, tokens = guarded
    for sent in (_basic(tokens.get(who, "")), {"Authorization": f"Bearer {tokens.get(who, 'x')}"}):
        answer = server.ask(path, **sent)
        assert answer.status == ANSWERS[who, path]
        if answer.status == 401:
            assert answer.headers["www-authenticate"].startswith("Basic ")
        if answer.status == 200:
            assert "script-src 'self'" in answer.headers["content-security-policy"]
            assert answer.headers["cache-control"].startswith("private")


def test_a_browsers_password_reads_no_rows(guarded: Site) -> None:
    server, tokens = guarded
    for path in ("/data/prod", "/v1/config?warehouse=prod"):
        assert server.ask(path, **_basic(tokens["prod"])).status == 401
        assert server.ask(path, Authorization=f"Bearer {tokens['prod']}").status == 200


def test_a_browser_shows_the_site_once_it_has_the_token(guarded: Site, tmp_path: Path) -> None:
    server, tokens = guarded
    with sync_playwright() as playwright:
        page = open_page(playwright, tmp_path / "profile")
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        address = server.url.replace("://", f"://anybody:{tokens['prod']}@")
        page.goto(f"{address}/site/prod")
        page.get_by_role("link", name="raw.orders", exact=True).first.click()
        expect(page.locator("h1")).to_have_text("raw.orders")
        assert page.evaluate("location.pathname") == "/site/prod/"
        assert said == []
        page.context.close()
