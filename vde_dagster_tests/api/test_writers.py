"""Examples of writers of kinds; `vde_dagster_tests/kinds` has complete ones."""

from __future__ import annotations

from collections.abc import Mapping

from vde_dagster.api.plans import Snapshot
from vde_dagster.api.writers import Layout, Strategy, WholeTable, Write


def test_Layout() -> None:
    by_day = Layout(partitioned_by=("days(ts)",), properties={"write.format.default": "parquet"})
    assert by_day.partitioned_by == ("days(ts)",)


def test_Strategy() -> None:
    class Distinct(Strategy):
        """Overwrites the table by the distinct rows of the query, in one commit."""

        def layout(self, snapshot: Snapshot, types: Mapping[str, str]) -> Layout:
            return Layout()

        def write(self, write: Write) -> None:
            write.overwrite(write.frame.distinct(), write.task.branch)

    assert Distinct().own_session is False


def test_WholeTable() -> None:
    class Everything(WholeTable):
        """Replaces all rows, as FULL does."""

    assert issubclass(Everything, Strategy)


def test_Write() -> None:
    class Newest(Strategy):
        """Keeps the rows of the newest day."""

        def write(self, write: Write) -> None:
            day = write.physical_name("day")  # The table's column of the output column `day`.
            newest = write.frame.where(f"{day} = (SELECT max({day}) FROM {write.table.quoted})")
            write.overwrite(newest, write.task.branch)

    assert Newest().digests_table.__name__ == "digests_table"
