"""The properties that a `MODEL (…)` header or a Python model's decorator may have, declared once:
their JSON Schema with what they mean, and the value that counts without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_UNITS = ("five_minute", "quarter_hour", "half_hour", "hour", "day", "month", "year")


def _told(description: str, default: str | None = None, **schema: Any) -> dict[str, Any]:
    told = {"description": description, **schema}
    return told if default is None else {**told, "default": default}


def _switch(description: str, default: str | None = None) -> dict[str, Any]:
    return _told(description, default, type="boolean")


DECLARED: Mapping[str, dict[str, Any]] = {
    "name": _told("the model's name, schema.name", type="string"),
    "kind": _told("how its rows are kept", "VIEW"),
    "cron": _told("when it is due: five fields, or @hourly, @daily, @weekly, @monthly, @yearly"),
    "cron_tz": _told("the IANA time zone in which the cron is read", "UTC"),
    "interval_unit": _told(
        "what an interval is; the largest unit that fits the cron by default", examples=_UNITS
    ),
    "allow_partials": _switch("whether a unit that still goes on is filled, too", "false"),
    "start": _told("since when there are data: a date, or a time told from now, '1 year ago'"),
    "end": _told("until when there are data; a date includes its day"),
    "freshness": _told("how old its last fill may be, '2 hours', before people are told"),
    "owner": _told("who owns it, for people"),
    "description": _told("what it is, for people; by default the comment before the header"),
    "tags": _told("words by which commands choose models, tag:x"),
    "columns": _told("its columns with their types, (name TYPE, …); Python models need them"),
    "column_descriptions": _told("what columns are, for people: (name = 'text', …)"),
    "audits": _told("queries that must find no rows, (not_null(columns := (id)), …)"),
    "signals": _told("Python functions that say which intervals may be filled"),
    "partitioned_by": _told("columns or Iceberg's transforms of them: (days(ts), bucket(8, id))"),
    "clustered_by": _told("columns by which rows are sorted in their files"),
    "table_properties": _told("properties of its Iceberg table, ('key' = 'value', …)"),
    "physical_properties": _told("properties of its Iceberg table, ('key' = 'value', …)"),
    "virtual_properties": _told("properties of its views, ('key' = 'value', …)"),
    "grain": _told("columns that are said to identify a row; not checked"),
    "grains": _told("several lists of columns that each are said to identify a row"),
    "stamp": _told("any text: another one forces a new version"),
    "physical_version": _told("a name for the table of a model that changes in place"),
    "ignored_rules": _told("rules of the linter that do not look at it; or all"),
    "depends_on": _told("tables that the query reads and does not show"),
    "dialect": _told("SQLGlot's dialect of the query, which is translated to Spark's", "spark"),
    "dialect_trust": _told("functions of the dialect that mean the same on Spark, (f, g)"),
    "enabled": _switch("whether the model is part of the project", "true"),
    "skip_unchanged": _switch("whether runs leave a whole table as it is when nothing changed"),
    "table_format": _told("the format of its table", "iceberg", examples=("iceberg",)),
    "storage_format": _told("the format of its files", "parquet", examples=("parquet", "orc")),
    "formatting": _switch("whether vde format lays the file out", "true"),
}
