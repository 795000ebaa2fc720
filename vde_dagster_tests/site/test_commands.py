"""`vde docs build` and `vde docs serve`, as they are called."""

from __future__ import annotations

import json
import urllib.request
from contextlib import ExitStack
from http.server import ThreadingHTTPServer
from pathlib import Path
from socket import create_connection
from threading import Thread

import pytest

from vde_dagster.cli.app import call
from vde_dagster.plugins.site.build import serve_site
from vde_dagster_tests.execution.fake_workspace import publish_shop

pytestmark = pytest.mark.long

AS_OF = ("--as-of", "2026-11-28T00:00")


def _build(root: Path, *arguments: str) -> int:
    return call(["docs", "build", *arguments, "--project", str(root), "--json"])


def _content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_site_of_files_and_one_of_a_version_are_built_beside_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_shop(tmp_path)
    assert _build(tmp_path, *AS_OF) == 0
    told = json.loads(capsys.readouterr().out)
    made = _content(tmp_path / "build" / "docs")
    assert told["page"] == str(tmp_path / "build" / "docs" / "index.html")
    assert (told["models"], told["bytes"]) == (5, sum(map(len, made.values())))
    assert _build(tmp_path, *AS_OF) == 0
    assert _content(tmp_path / "build" / "docs") == made
    assert _build(tmp_path, "prod@1", "--to", str(tmp_path / "audit")) == 0
    assert b'"of":"prod@1"' in _content(tmp_path / "audit")["index.js"]
    capsys.readouterr()
    assert _build(tmp_path, "Prod") == 0
    assert json.loads(capsys.readouterr().out)["folder"] == str(tmp_path / "build" / "docs-prod")


def test_what_cannot_be_built_is_said_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_shop(tmp_path)
    assert _build(tmp_path, "prdo") == 2
    assert "prdo" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert _build(tmp_path, "--to", str(tmp_path / "models")) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert "do not belong to a site" in error["message"]
    assert "--to FOLDER" in error["hint"]
    for time in ("0001-01-01", "9999-12-31T23:59:59"):
        assert _build(tmp_path, "--as-of", time) == 2
        assert "cannot be determined" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert not (tmp_path / "build").exists()


def test_a_site_is_served_to_this_machine(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("pages")
    with serve_site(tmp_path, 0) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        assert server.server_address[0] == "127.0.0.1"
        url = f"http://127.0.0.1:{server.server_port}/"
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert answer.read() == b"pages"
        server.shutdown()


def test_a_busy_server_answers_a_browser_that_opens_many_connections_at_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "index.html").write_text("pages")
    with serve_site(tmp_path, 0) as server, ExitStack() as opened:
        clients = [
            opened.enter_context(create_connection(("127.0.0.1", server.server_port), 2))
            for _ in range(40)
        ]
        for client in clients:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        answers = [client.makefile("rb").read() for client in clients]
        server.shutdown()
    assert {answer[-5:] for answer in answers} == {b"pages"}


def test_ctrl_c_ends_the_server_with_the_address_as_the_only_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    publish_shop(tmp_path)
    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", interrupt)
    assert call(["docs", "serve", "--port", "0", "--project", str(tmp_path), "--json"]) == 130
    assert json.loads(capsys.readouterr().out)["url"].startswith("http://127.0.0.1:")
