"""Work that takes memory has few places, and whoever waits for one keeps nobody else waiting."""

from __future__ import annotations

import threading

import anyio
import pytest
from anyio import to_thread

from vde_dagster.serve.errors import ServeError
from vde_dagster.serve.places import Places


def test_who_finds_no_place_is_told_and_others_go_on() -> None:
    anyio.run(_fill_and_ask)


async def _fill_and_ask() -> None:
    places, ended, begun = Places(2, 0.01), threading.Event(), threading.Barrier(3)
    found: list[str] = []

    def long_work() -> str:
        begun.wait(60)
        assert ended.wait(60)
        return "long"

    async def one() -> None:
        found.append(await places.run(long_work))

    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(one)
        await to_thread.run_sync(begun.wait, 60)
        # Whoever waits takes none of the threads in which other requests are answered.
        to_thread.current_default_thread_limiter().total_tokens = 1
        with pytest.raises(ServeError) as refused:
            await places.run(long_work)
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "5"})
        await to_thread.run_sync(ended.set)
    assert found == ["long", "long"]
    assert await places.run(lambda: "again") == "again"


def test_work_that_fails_leaves_its_place() -> None:
    async def fail_and_go_on() -> int:
        places = Places(1, 0.01)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await places.run(lambda: 1 // 0)
        return await places.run(lambda: 7)

    assert anyio.run(fail_and_go_on) == 7
