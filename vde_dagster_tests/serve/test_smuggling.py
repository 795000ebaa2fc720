"""Heads that a proxy and the server could delimit differently, over raw sockets; links in sites."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from vde_dagster.plugins.site.build import serve_site
from vde_dagster.programs.serve.errors import add_error_handlers
from vde_dagster.programs.serve.server import Limits
from vde_dagster.programs.serve.site_route import site_route
from vde_dagster_tests.serve.test_limits import _takes, answered, connected, running

LIMITS = Limits(head_seconds=5, body_seconds=5)
HOST = b"Host: a\r\n"
POST = b"POST / HTTP/1.1\r\n" + HOST
CHUNKS = b"0\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n"
REFUSED = {
    "both": POST + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n" + CHUNKS,
    "both, the other way round": POST + CHUNKED + b"Content-Length: 5\r\n\r\n" + CHUNKS,
    "both in other letters": POST
    + b"content-LENGTH:5\r\ntransfer-ENCODING:CHUNKED\r\n\r\n"
    + CHUNKS,
    "both with tabs": POST + b"Content-Length:\t5\t\r\n" + CHUNKED + b"\r\n" + CHUNKS,
    "two equal lengths": POST + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
    "a list of lengths": POST + b"Content-Length: 5, 5\r\n\r\nhello",
    "a length with a sign": POST + b"Content-Length: +5\r\n\r\nhello",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "a hexadecimal length": POST + b"Content-Length: 0x5\r\n\r\nhello",
    "an empty length": POST + b"Content-Length: \r\n\r\n",
    "a length of many digits": POST + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n",
    "two encodings": POST + CHUNKED * 2 + b"\r\n" + CHUNKS,
    "a list of encodings": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKS,
    "chunked and identity": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n" + CHUNKS,
    "an unknown encoding": POST + b"Transfer-Encoding: xchunked\r\n\r\n" + CHUNKS,
    "a folded encoding": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + CHUNKS,
    "a folded length": POST + b"X: a\r\n\tContent-Length: 5\r\n\r\nhello",
    "a blank before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n" + CHUNKS,
    "a blank before a name": POST + b" Content-Length: 5\r\n\r\nhello",
    "chunks in HTTP/1.0": POST.replace(b"1.1", b"1.0") + CHUNKED + b"\r\n" + CHUNKS,
    "lines that end with LF": (POST + b"Content-Length: 5\r\n\r\n").replace(b"\r", b"") + b"hello",
    "a CR within a line": POST + b"X: a\rContent-Length: 5\r\n\r\nhello",
    "a NUL in a header": POST + b"Content-Length: 0\x00\r\n\r\n",
    "a chunk that is no number": POST + CHUNKED + b"\r\nzz\r\nhello\r\n" + CHUNKS,
    "a negative chunk": POST + CHUNKED + b"\r\n-5\r\nhello\r\n" + CHUNKS,
    "a chunk with a sign": POST + CHUNKED + b"\r\n+5\r\nhello\r\n" + CHUNKS,
    "a chunk of many digits": POST + CHUNKED + b"\r\n" + b"f" * 40 + b"\r\nhello\r\n" + CHUNKS,
    "a chunk that is longer": POST + CHUNKED + b"\r\n3\r\nhello\r\n" + CHUNKS,
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\n" + HOST + b"Host: b\r\n\r\n",
}
TAKEN = {
    "no body": b"GET / HTTP/1.1\r\n" + HOST + b"\r\n",
    "a length": POST + b"Content-Length: 5\r\n\r\nhello",
    "no bytes": POST + b"Content-Length: 0\r\n\r\n",
    "chunks": POST + CHUNKED + b"\r\n5\r\nhello\r\n" + CHUNKS,
    "chunks in other letters": POST + b"transfer-encoding:Chunked\r\n\r\n" + CHUNKS,
}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running(_takes, LIMITS) as found:
        yield found


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("first", [b"", TAKEN["a length"]], ids=["alone", "pipelined"])
def test_an_ambiguous_request_is_answered_400_and_ends_its_connection(
    port: int, case: str, first: bytes
) -> None:
    with connected(port) as connection:
        connection.sendall(first + REFUSED[case] + SMUGGLED)
        answers = answered(connection)  # Until the server ends the connection.
    assert answers.count("HTTP/1.1 400") == 1
    assert answers.count("HTTP/1.1 ") == (2 if first else 1), "what follows is not answered"
    assert answers.rpartition("HTTP/1.1 ")[2].startswith("400 Bad Request")
    assert "connection: close" in answers


@pytest.mark.parametrize("case", ["both", "two equal lengths", "a folded encoding"])
def test_an_ambiguous_head_is_refused_however_its_bytes_arrive(port: int, case: str) -> None:
    with connected(port) as connection:
        for byte in REFUSED[case]:
            try:
                connection.sendall(bytes([byte]))
            except ConnectionError:
                break
        answers = answered(connection)
    assert answers.count("HTTP/1.1 ") == 1
    assert answers.startswith("HTTP/1.1 400 Bad Request")


@pytest.mark.parametrize("case", TAKEN)
def test_requests_that_every_server_reads_alike_keep_their_connection(port: int, case: str) -> None:
    with connected(port) as connection:
        for _ in range(3):
            connection.sendall(TAKEN[case])
            response = http.client.HTTPResponse(connection)
            response.begin()
            assert (response.status, response.read()) == (200, b"ok")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a site of production, and a secret beside it."""
    root = tmp_path / "shop"
    site = root / "build" / "docs-prod"
    (site / "data").mkdir(parents=True)
    (site / "index.html").write_text("page")
    (site / "data" / "index.js").write_text("page")
    (site / "data" / "inner.js").symlink_to("index.js")
    (tmp_path / "secret.js").write_text("secret")
    (site / "data" / "stolen.js").symlink_to("../../../../secret.js")
    (site / "data" / "absolute.js").symlink_to(tmp_path / "secret.js")
    (site / "data" / "loop.js").symlink_to("loop.js")
    (site / "data" / "chain.js").symlink_to("stolen.js")
    (root / "build" / "docs-dev").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "data").mkdir(parents=True)
    (tmp_path / "elsewhere" / "data" / "index.js").write_text("secret")
    (tmp_path / "elsewhere" / "site.js").write_text("secret")
    return root


PATHS = {
    "/site/prod/data/index.js": 200,
    "/site/prod/data/inner.js": 200,
    "/site/prod/data/stolen.js": 404,
    "/site/prod/data/absolute.js": 404,
    "/site/prod/data/chain.js": 404,
    "/site/prod/data/loop.js": 404,
    "/site/dev/site.js": 404,
    "/site/prod/../../../secret.js": 404,
    "/site/prod/%2e%2e/%2e%2e/%2e%2e/secret.js": 404,
    "/site/prod/..%2f..%2f..%2fsecret.js": 404,
    "/site/prod/data/%2e%2e%2f%2e%2e%2f%2e%2e%2fsecret.js": 404,
    "/site/prod/%252e%252e/secret.js": 404,
    "/site/prod/..%5c..%5c..%5csecret.js": 404,
    "/site/prod/C:%5csecret.js": 404,
    "/site/prod/%5c%5cserver%5cshare%5csecret.js": 404,
    "/site/prod//etc/passwd": 404,
    "/site/prod/data/index.js%00": 404,
    "/site/prod/data/index.js%00.html": 404,
    "/site/prod/data/index.js/": 404,
    "/site/%2e%2e/data/index.js": 404,
    "/site/prod%2f..%2fprod/data/index.js": 404,
    "/site/prod/data/": 404,
}


def test_a_site_answers_its_own_files_alone(project: Path) -> None:
    app = FastAPI()
    add_error_handlers(app)
    app.include_router(site_route(project))
    found = {}
    with running(app, LIMITS) as port:
        for path in PATHS:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.putrequest("GET", path, skip_accept_encoding=True)
            connection.endheaders()
            answer = connection.getresponse()
            body = answer.read()
            assert b"secret" not in body.replace(b"secret.js", b""), path
            assert b"root:" not in body, path
            found[path] = answer.status
    assert found == PATHS


def test_a_preview_of_a_site_answers_its_own_files_alone(project: Path) -> None:
    site = project / "build" / "docs-prod"
    server = serve_site(site, 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    expected = {
        "/": 200,
        "/data/index.js": 200,
        "/data/stolen.js": 404,
        "/data/chain.js": 404,
        "/data/loop.js": 404,
        "/data/": 404,
        "/../docs-dev/site.js": 404,
        "/%2e%2e/%2e%2e/%2e%2e/secret.js": 404,
        "/..%5c..%5csecret.js": 404,
        "/data/index.js%00": 404,
    }
    try:
        found = {}
        for path in expected:
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
            connection.putrequest("GET", path)
            connection.endheaders()
            answer = connection.getresponse()
            found[path] = answer.status
            assert b"secret" not in answer.read().replace(b"secret.js", b"")
    finally:
        server.shutdown()
        server.server_close()
    assert found == expected
