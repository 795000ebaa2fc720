"""Reading the kind of a `MODEL (…)` header and its properties."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from vde_dagster.base.suggestions import suggest
from vde_dagster.project.kinds import KINDS, Kind, kind_names
from vde_dagster.project.reading.header import Value

NO_DEFAULTS: Mapping[str, Value] = MappingProxyType({})

NOT_YET = frozenset(
    [
        "HUB",
        "LINK",
        "SATELLITE",
        "INCREMENTAL_BY_CHANGES",
    ]
)

_NEVER = {
    "MANAGED": (
        "the engine itself would keep its table up to date, and Spark has no such tables",
        "use FULL with the cron at which it has to be fresh, or an incremental kind",
    )
}

_IGNORED = frozenset(
    [
        "on_destructive_change",
        "on_additive_change",
        "disable_restatement",
        "dialect",
        "partition_by_time_column",
    ]
)
_IN_ORDER = "batch_concurrency"
_FALSE_ONLY = {
    "forward_only": "tables of this kind are always made anew",
}


def read_kind(
    value: Value, dialect: str = "spark", defaults: Mapping[str, Value] = NO_DEFAULTS
) -> Kind:
    """Read `NAME` or `NAME (property value, …)`.

    A seed's path is returned as written.

    Args:
        value: The property `kind`.
        dialect: SQLGlot dialect of the model, in which its SQL is written.
        defaults: Properties that hold where the kind has them and does not give them.

    Raises:
        ProjectError: The kind or a property is unknown, or one is missing.
    """
    known = kind_names()
    if not value.tokens:
        raise value.error("property 'kind' has no value", f"kinds: {', '.join(known)}")
    name = value.tokens[0].text.upper().strip("'\"")
    if name in _NEVER:
        why, hint = _NEVER[name]
        raise value.error(f"kind {name} is not supported: {why}", hint)
    kind = KINDS.named(name)
    if name in NOT_YET and kind is None:
        raise value.error(
            f"kind {name} is not supported yet", f"supported kinds: {', '.join(known)}"
        )
    if kind is None:
        raise value.error(f"unknown kind '{name}'", suggest(name, known, "kinds"))
    written = dataclasses.replace(value, dialect=dialect).properties(after=1)
    _check_names(name, kind, written)
    written = {**defaults, **written}
    given = {}
    for item in kind.properties:
        if item.name in written:
            given[item.name] = item.read(written[item.name])
        elif item.required:
            raise value.error(
                f"kind {name} needs '{item.name}'", f"write kind {name} ({item.name} …)"
            )
    try:
        return kind.of(given)
    except ValueError as error:
        raise value.error(f"kind {name}: {error}") from error


def _check_names(name: str, kind: type[Kind], written: dict[str, Value]) -> None:
    own = {item.name for item in kind.properties} | kind.ignored
    for key, value in written.items():
        if key in own or key in _IGNORED:
            continue
        message = None
        if key == _IN_ORDER:
            if value.integer() == 1:
                continue
            message = f"batches of kind {name} follow each other, so it can only be 1"
        if key in _FALSE_ONLY:
            if not value.boolean():
                continue
            message = _FALSE_ONLY[key]
        if message is not None:
            raise value.source.error(f"property '{key}': {message}", value.start, "remove it")
        raise value.source.error(
            f"kind {name} has no property '{key}'",
            value.start,
            suggest(key, own, "properties of this kind"),
        )
