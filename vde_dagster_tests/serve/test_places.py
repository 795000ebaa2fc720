"""Work that takes memory has few places, and whoever waits for one keeps nobody else waiting."""

from __future__ import annotations

import threading
import time
from functools import partial

import anyio
import pytest
from anyio import to_thread

from vde_dagster.programs.serve.data_routes import _WAIT_SECONDS, ROWS_AT_ONCE, WorkerSlots
from vde_dagster.programs.serve.errors import ServeError


def test_who_finds_no_place_is_told_and_others_go_on() -> None:
    anyio.run(_fill_and_ask)


async def _fill_and_ask() -> None:
    places, ended, begun = WorkerSlots(2, 0.01), threading.Event(), threading.Barrier(3)
    found: list[str] = []

    def long_work() -> str:
        begun.wait(60)
        assert ended.wait(60)
        return "long"

    async def one() -> None:
        found.append(await places.run(long_work, "a"))

    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(one)
        await to_thread.run_sync(begun.wait, 60)
        # Whoever waits takes none of the threads in which other requests are answered.
        to_thread.current_default_thread_limiter().total_tokens = 1
        with pytest.raises(ServeError) as refused:
            await places.run(long_work, "a")
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
        await to_thread.run_sync(ended.set)
    assert found == ["long", "long"]
    assert await places.run(lambda: "again", "a") == "again"


def test_work_that_fails_leaves_its_place() -> None:
    async def fail_and_go_on() -> int:
        places = WorkerSlots(1, 0.01)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await places.run(lambda: 1 // 0, "a")
        return await places.run(lambda: 7, "a")

    assert anyio.run(fail_and_go_on) == 7


def test_each_client_has_its_turn_however_much_another_asks() -> None:
    order: list[str] = []

    async def ask() -> None:
        places, ended = WorkerSlots(1, 60), threading.Event()

        def noted(name: str) -> None:
            assert ended.wait(60)
            order.append(name)

        async with anyio.create_task_group() as group:
            for name in ("first", "much", "much", "much", "little", "other"):
                group.start_soon(places.run, partial(noted, name), name)
            await anyio.sleep(0.05)
            ended.set()

    anyio.run(ask)
    assert order == ["first", "much", "little", "other", "much", "much"]


@pytest.mark.proof
def test_two_hundred_clients_at_once_are_all_answered() -> None:
    """As many as the server's defaults have to bear; a third of them was refused once."""
    places, answers = WorkerSlots(ROWS_AT_ONCE, _WAIT_SECONDS), []

    async def ask(client: str) -> None:
        for _ in range(3):
            answers.append(await places.run(lambda: time.sleep(0.01), client))

    async def all_at_once() -> None:
        async with anyio.create_task_group() as group:
            for number in range(200):
                group.start_soon(ask, f"client {number}")

    anyio.run(all_at_once)
    assert len(answers) == 600


@pytest.mark.proof
def test_who_would_wait_too_long_is_told_when_to_come_back() -> None:
    async def ask() -> None:
        places = WorkerSlots(1, 0.5)
        await places.run(lambda: time.sleep(0.3), "a")
        async with anyio.create_task_group() as group:
            group.start_soon(places.run, lambda: time.sleep(0.3), "a")
            await anyio.sleep(0.05)
            group.start_soon(places.run, lambda: None, "a")
            await anyio.sleep(0.05)
            begun = time.monotonic()
            with pytest.raises(ServeError) as refused:
                await places.run(lambda: None, "a")
            assert refused.value.headers == {"Retry-After": "1"}
            assert time.monotonic() - begun < 0.2
            # Another client's line is shorter.
        assert await places.run(lambda: 3, "b") == 3

    anyio.run(ask)


def test_who_gives_up_leaves_its_place_in_the_line_to_others() -> None:
    async def ask() -> int:
        places, ended = WorkerSlots(1, 60), threading.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(places.run, lambda: ended.wait(60), "a")
            await anyio.sleep(0.05)
            with anyio.move_on_after(0.05):
                await places.run(lambda: 1 // 0, "a")
            ended.set()
        return await places.run(lambda: 7, "a")

    assert anyio.run(ask) == 7
