"""The kinds of this folder, registered in a process as entry points would register them."""

from __future__ import annotations

from vde_dagster.planning.kinds import meaning_for
from vde_dagster.project.kinds import KINDS
from vde_dagster.spark.strategies.base import strategy_for
from vde_dagster_tests.kinds.appended import Appended
from vde_dagster_tests.kinds.appended_meaning import AppendedMeaning
from vde_dagster_tests.kinds.appended_writer import AppendedRows
from vde_dagster_tests.kinds.newest_rows import NewestRows
from vde_dagster_tests.kinds.newest_rows_meaning import NewestMeaning
from vde_dagster_tests.kinds.newest_rows_writer import NewestWriter


def know_kinds() -> None:
    """Register APPENDED and NEWEST_ROWS."""
    KINDS.add(Appended, NewestRows)
    meaning_for(Appended)(AppendedMeaning)
    meaning_for(NewestRows)(NewestMeaning)
    strategy_for(Appended)(AppendedRows)
    strategy_for(NewestRows)(NewestWriter)


def forget_kinds() -> None:
    """Remove them from the names in headers."""
    del KINDS.by_name["APPENDED"]
    del KINDS.by_name["NEWEST_ROWS"]
