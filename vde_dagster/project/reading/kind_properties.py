"""The kinds of a `MODEL (…)` header and their properties."""

from __future__ import annotations

from vde_dagster.base.suggestions import suggest
from vde_dagster.project.kinds import (
    KIND_NAMES,
    Embedded,
    External,
    Full,
    IncrementalByTimeRange,
    IncrementalByUniqueKey,
    Kind,
    Seed,
    View,
)
from vde_dagster.project.reading.header import Value

NOT_YET = frozenset(
    [
        "SCD_TYPE_2",
        "SCD_TYPE_2_BY_TIME",
        "SCD_TYPE_2_BY_COLUMN",
        "INCREMENTAL_BY_PARTITION",
        "INCREMENTAL_UNMANAGED",
        "CUSTOM",
        "MANAGED",
        "HUB",
        "LINK",
        "SATELLITE",
        "INCREMENTAL_BY_CHANGES",
    ]
)

_SIMPLE: dict[str, Kind] = {
    "FULL": Full(),
    "VIEW": View(),
    "EMBEDDED": Embedded(),
    "EXTERNAL": External(),
}

_INCREMENTAL = frozenset({"lookback", "batch_size"})
_IGNORED = frozenset(
    [
        "batch_concurrency",
        "on_destructive_change",
        "on_additive_change",
        "disable_restatement",
        "dialect",
        "partition_by_time_column",
    ]
)
_FALSE_ONLY = {
    "forward_only": "forward-only models are not supported yet",
    "materialized": "materialised views are not supported; use kind FULL",
}
_REFUSED = {
    "auto_restatement_cron": "automatic restatement is not supported yet",
    "auto_restatement_intervals": "automatic restatement is not supported yet",
    "when_matched": "custom MERGE clauses are not supported yet",
    "merge_filter": "custom MERGE filters are not supported yet",
}
_OWN = {
    "INCREMENTAL_BY_TIME_RANGE": _INCREMENTAL | {"time_column"},
    "INCREMENTAL_BY_UNIQUE_KEY": _INCREMENTAL | {"unique_key"},
    "SEED": frozenset({"path", "csv_settings", "batch_size"}),
}


def read_kind(value: Value) -> Kind:
    """Read `NAME` or `NAME (property value, …)`.

    A seed's path is returned as written.

    Raises:
        ProjectError: The kind or a property is unknown, or one is missing.
    """
    if not value.tokens:
        raise value.error("property 'kind' has no value", f"kinds: {', '.join(KIND_NAMES)}")
    name = value.tokens[0].text.upper().strip("'\"")
    if name in NOT_YET:
        raise value.error(
            f"kind {name} is not supported yet", f"supported kinds: {', '.join(KIND_NAMES)}"
        )
    if name not in KIND_NAMES:
        raise value.error(f"unknown kind '{name}'", suggest(name, KIND_NAMES, "kinds"))
    properties = value.properties(after=1)
    _check_names(name, properties)
    if name == "INCREMENTAL_BY_TIME_RANGE":
        column, time_format = _time_column(_required(value, name, properties, "time_column"))
        return IncrementalByTimeRange(column, time_format, *_incremental(properties))
    if name == "INCREMENTAL_BY_UNIQUE_KEY":
        key = _required(value, name, properties, "unique_key")
        columns = tuple(text.strip('`"') for text in key.raws())
        for item, text in zip(key.items(), columns, strict=True):
            if len(item.tokens) != 1:
                raise item.error(
                    f"unique key '{text}' is not a column", "add the expression as a column"
                )
        return IncrementalByUniqueKey(columns, *_incremental(properties))
    if name == "SEED":
        return _seed(value, properties)
    return _SIMPLE[name]


def _check_names(kind: str, properties: dict[str, Value]) -> None:
    own = _OWN.get(kind, frozenset())
    for name, value in properties.items():
        if name in own or name in _IGNORED:
            continue
        message = _REFUSED.get(name)
        if name in _FALSE_ONLY:
            if not value.boolean():
                continue
            message = _FALSE_ONLY[name]
        if message is not None:
            raise value.source.error(f"property '{name}': {message}", value.start, "remove it")
        raise value.source.error(
            f"kind {kind} has no property '{name}'",
            value.start,
            suggest(name, own, "properties of this kind"),
        )


def _required(kind: Value, name: str, properties: dict[str, Value], key: str) -> Value:
    found = properties.get(key)
    if found is None:
        raise kind.error(f"kind {name} needs '{key}'", f"write kind {name} ({key} …)")
    return found


def _time_column(value: Value) -> tuple[str, str | None]:
    items = value.items()
    if not 1 <= len(items) <= 2 or len(items[0].tokens) != 1:
        raise value.error(
            f"'{value.raw}' is not a time column", "write time_column ds, or (ds, '%Y-%m-%d')"
        )
    column = items[0].text()
    return column, items[1].text() if len(items) == 2 else None


def _incremental(properties: dict[str, Value]) -> tuple[int, int | None]:
    lookback = properties["lookback"].integer() if "lookback" in properties else 0
    if "batch_size" not in properties:
        return lookback, None
    batch_size = properties["batch_size"].integer()
    if batch_size < 1:
        raise properties["batch_size"].error("property 'batch_size' has to be 1 or more")
    return lookback, batch_size


def _seed(value: Value, properties: dict[str, Value]) -> Seed:
    path = _required(value, "SEED", properties, "path").text()
    delimiter, null_values = ",", tuple[str, ...]()
    settings = properties.get("csv_settings")
    for key, item in settings.pairs() if settings is not None else []:
        if key in ("delimiter", "sep"):
            delimiter = item.text().replace("\\t", "\t")
            if len(delimiter) != 1:
                raise item.error("the delimiter has to be one character")
        elif key == "na_values":
            null_values = item.texts()
        elif key in ("keep_default_na", "encoding", "quotechar", "doublequote", "lineterminator"):
            _check_csv_default(key, item)
        else:
            raise item.error(
                f"unknown CSV setting '{key}'",
                suggest(key, ("delimiter", "na_values", "quotechar", "encoding")),
            )
    return Seed(path=path, delimiter=delimiter, null_values=null_values)


def _check_csv_default(key: str, item: Value) -> None:
    allowed = {
        "keep_default_na": ("false", "true"),
        "encoding": ("utf-8", "utf8"),
        "quotechar": ('"',),
        "doublequote": ("true",),
        "lineterminator": ("\n", "\\n", "n"),
    }[key]
    if item.text().lower() not in allowed:
        raise item.error(f"CSV setting '{key}' can only be {allowed[0]!r}")
