"""Properties of `MODEL (…)` headers and Python models: their JSON Schema with defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_UNITS = ("five_minute", "quarter_hour", "half_hour", "hour", "day", "month", "year")


def _property(description: str, default: str | None = None, **schema: Any) -> dict[str, Any]:
    told = {"description": description, **schema}
    return told if default is None else {**told, "default": default}


def _switch(description: str, default: str | None = None) -> dict[str, Any]:
    return _property(description, default, type="boolean")


DECLARED: Mapping[str, dict[str, Any]] = {
    "name": _property("the model's name, schema.name", type="string"),
    "kind": _property("how its rows are stored", "VIEW"),
    "cron": _property("when due: five fields, or @hourly, @daily, @weekly, @monthly, @yearly"),
    "cron_tz": _property("the IANA time zone of the cron", "UTC"),
    "interval_unit": _property(
        "the unit of intervals; by default the largest unit that fits the cron", examples=_UNITS
    ),
    "allow_partials": _switch("whether an unfinished unit is filled", "false"),
    "start": _property("start of the data: a date, or a relative time, '1 year ago'"),
    "end": _property("end of the data; a date includes its day"),
    "freshness": _property("maximum age of its last fill, '2 hours', before it counts as late"),
    "retry_policy": _property(
        "retries of its step in Dagster: 3, or (max_retries = 3, delay = '30 seconds', "
        "backoff = exponential, jitter = full)"
    ),
    "op_tags": _property("tags of its step in Dagster: ('dagster-k8s/config' = (…), …)"),
    "pool": _property("pool that limits how many of its steps Dagster runs at a time"),
    "automation_condition": _property(
        "condition for Dagster to materialize it: eager, on_missing, on_cron('@daily')",
        examples=("eager", "on_missing"),
    ),
    "owner": _property("its owner, for display"),
    "description": _property("its description; by default the comment before the header"),
    "tags": _property("words with which commands select models, tag:x"),
    "columns": _property("its columns with types, (name TYPE, …); required for Python models"),
    "column_descriptions": _property("descriptions of columns: (name = 'text', …)"),
    "audits": _property("queries that must return no rows, (not_null(columns := (id)), …)"),
    "signals": _property("Python functions that decide which intervals may be filled"),
    "partitioned_by": _property("columns or Iceberg transforms: (days(ts), bucket(8, id))"),
    "clustered_by": _property("columns to sort the rows of files by"),
    "table_properties": _property("properties of its Iceberg table, ('key' = 'value', …)"),
    "physical_properties": _property("properties of its Iceberg table, ('key' = 'value', …)"),
    "virtual_properties": _property("properties of its views, ('key' = 'value', …)"),
    "grain": _property("columns that identify a row; not checked"),
    "grains": _property("several lists of columns that each identify a row"),
    "stamp": _property("any text; changing it forces a new version"),
    "physical_version": _property("a name for the table of a model that changes in place"),
    "ignored_rules": _property("rules of the linter to skip; or all"),
    "depends_on": _property("tables that the model reads in addition to its query"),
    "dialect": _property("SQLGlot dialect of the query, which is translated to Spark SQL", "spark"),
    "dialect_trust": _property("functions of the dialect that are equal on Spark, (f, g)"),
    "enabled": _switch("whether the model is part of the project", "true"),
    "skip_unchanged": _switch("whether runs skip a table without changed inputs"),
    "table_format": _property("the format of its table", "iceberg", examples=("iceberg",)),
    "storage_format": _property("the format of its files", "parquet", examples=("parquet", "orc")),
    "formatting": _switch("whether vde format formats the file", "true"),
}
