"""Examples of sinks, which a sync keeps equal to a published view."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pyarrow as pa
import pytest

from vde_dagster.api.sinks import Batch, Delivery, Sink, Step
from vde_dagster.api.workspace import Workspace


def test_Batch() -> None:
    batch = Batch("12", rows=({"id": 1}, {"id": 2}), gone=({"id": 3},))
    first, second = batch.halves()
    assert (len(first), len(second), second.number) == (1, 2, "12.2")


def test_Delivery() -> None:
    class ToList:
        """Keeps rows in a list; a batch that comes twice has the effect of one."""

        def __init__(self) -> None:
            self.rows: dict[object, object] = {}

        def begin(self, step: Step) -> None:
            if step.since == 0:
                self.rows.clear()

        def send(self, batch: Batch) -> int:
            before = len(self.rows)
            self.rows.update((row["id"], row) for row in batch.rows)
            for key in batch.gone:
                self.rows.pop(key["id"], None)
            return len(self.rows) - before

        def end(self) -> int:
            return 0

    delivery: Delivery = ToList()
    assert delivery.send(Batch("1", rows=({"id": 1},))) == 1


def test_Sink() -> None:
    class PagerSink(msgspec.Struct, frozen=True):
        """A pager: `to: {prod: {pager: https://pager.test}}` in a sync's definition."""

        pager: str

        @property
        def place(self) -> str:
            return self.pager

        @contextmanager
        def open(self, workspace: Workspace, sync: str, *, dry: bool = False) -> Iterator[Delivery]:
            raise NotImplementedError

    sink: Sink = PagerSink("https://pager.test")
    assert sink.place == "https://pager.test"


def test_Step() -> None:
    schema = pa.schema([("id", pa.int64())])
    step = Step("customers", "prod", since=0, until=3, mode="upsert", key=("id",), schema=schema)
    with pytest.raises(AttributeError):
        step.until = 4  # type: ignore[misc]
