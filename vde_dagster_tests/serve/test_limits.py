"""What the open network sends: heads, bodies and connections without end, over real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
import uvicorn

from vde_dagster.programs.serve.server import Limits, uvicorn_config
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.served_process import serving

LIMITS = Limits(
    head_bytes=2_000, head_seconds=0.5, body_bytes=10_000, body_seconds=0.5, connections=6,
    by_address=4, taken_seconds=0.5,
)  # fmt: skip


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
    )
    await send({"type": "http.response.body", "body": b"ok"})


async def _takes(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await _answer(scope, receive, send)


async def _tells_much(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(100):
        await send({"type": "http.response.body", "body": b"x" * 500_000, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@contextmanager
def running(app: Any, limits: Limits = LIMITS) -> Iterator[int]:
    """Run Uvicorn in a thread, and say on which port."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn_config(app, limits))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running(_takes) as found:
        yield found


def connected(port: int, host: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(host, 0))


def answered(connection: socket.socket) -> str:
    """Return all that comes until the connection ends."""
    found = b""
    try:
        while more := connection.recv(65_536):
            found += more
    except ConnectionError:
        pass
    return found.decode()


def test_a_head_without_end_is_refused_at_once(port: int) -> None:
    begin = b"GET / HTTP/1.1\r\nHost: a\r\nX: "
    with connected(port) as one:
        one.sendall(begin + b"x" * LIMITS.head_bytes)
        assert answered(one).startswith("HTTP/1.1 400")
    with connected(port) as one:
        one.sendall(begin)
        with pytest.raises(ConnectionError):  # Long before all of it is read.
            one.sendall(b"x" * 150_000_000)
    with connected(port) as other:
        other.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert answered(other).startswith("HTTP/1.1 200")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: a\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHo",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc",
    ],
)
def test_a_request_that_is_half_sent_is_not_kept(port: int, sent: bytes) -> None:
    begun = time.monotonic()
    with connected(port) as one:
        one.sendall(sent)
        last = answered(one).rpartition("HTTP/1.1 ")[2]
    assert last.startswith("408")
    assert 0.4 < time.monotonic() - begun < 10


def test_a_head_that_comes_byte_by_byte_has_the_same_time(port: int) -> None:
    with connected(port) as one:
        one.sendall(b"GET / HTTP/1.1\r\nHost: ")
        sent = 0
        try:
            while sent < 1_000:
                sent += one.send(b"a")
                time.sleep(0.02)
        except ConnectionError:
            pass
        assert 0 < sent < 1_000


def test_a_body_that_nobody_wants_is_cut_off() -> None:
    with running(_answer) as port, connected(port) as one:
        try:
            one.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n")
            for _ in range(99):
                one.sendall(b"x" * 1_000_000)
            raise AssertionError("all of it was taken")
        except ConnectionError:
            pass


def test_one_address_has_some_connections_and_a_closed_one_makes_room(port: int) -> None:
    held = [connected(port) for _ in range(LIMITS.by_address)]
    with connected(port) as more:
        told = answered(more)
    assert told.startswith("HTTP/1.1 429")
    assert "retry-after" in told
    for one in held:
        one.close()
    time.sleep(0.2)
    with connected(port) as again:
        again.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert answered(again).startswith("HTTP/1.1 200")


def test_all_addresses_together_have_some_connections() -> None:
    limits = Limits(head_seconds=20, connections=3)
    with running(_answer, limits) as port:
        held = [connected(port) for _ in range(3)]
        with connected(port) as more:
            assert answered(more).startswith("HTTP/1.1 503")
        for one in held:
            one.close()


def test_a_connection_that_asks_again_and_again_is_kept(port: int) -> None:
    with connected(port) as one:
        for _ in range(4):
            one.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert one.recv(4_096).startswith(b"HTTP/1.1 200")
            time.sleep(0.3)


def test_the_command_holds_to_what_it_is_told_and_to_its_own_limits(shop: ProjectFolder) -> None:
    told = ("--connections", "4", "--connections-per-address", "3")
    with serving(shop.root, *told) as server, ExitStack() as held:
        port = int(server.url.rpartition(":")[2])
        body = b"POST /v1/prod/namespaces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"
        with connected(port) as one, suppress(ConnectionError):
            one.sendall(body % 99_999_999)
            for _ in range(99):
                one.sendall(b"x" * 1_000_000)
            raise AssertionError("all of it was taken")
        with connected(port) as one:
            one.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 100_000)
            assert answered(one)[:12] in ("HTTP/1.1 400", "HTTP/1.1 431", "")
        assert server.ask("/v1/config?warehouse=prod").status == 200
        for host in ("127.0.0.1",) * 3 + ("127.0.0.2",):
            held.enter_context(connected(port, host))
        for host, status in (("127.0.0.1", "429"), ("127.0.0.2", "503")):
            with connected(port, host) as more:
                assert answered(more).startswith(f"HTTP/1.1 {status}")
        held.close()
        time.sleep(0.2)
        assert server.ask("/v1/config?warehouse=prod").status == 200


@pytest.mark.parametrize(("pause", "all_of_it"), [(0.1, False), (0.0, True)])
def test_whoever_takes_an_answer_slowly_does_not_get_all_of_it(
    pause: float, all_of_it: bool
) -> None:
    taken = 0
    with running(_tells_much) as port, connected(port) as one:
        one.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        try:
            while more := len(one.recv(1_000 if pause and taken < 20_000 else 1_000_000)):
                taken += more
                time.sleep(pause if taken < 20_000 else 0)
        except ConnectionError:
            pass
    assert (taken > 50_000_000) is all_of_it
