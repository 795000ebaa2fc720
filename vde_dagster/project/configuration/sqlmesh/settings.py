"""Conversion of a SQLMesh configuration to keys of `[tool.vde]`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from enum import Enum
from operator import itemgetter
from pathlib import Path, PurePath
from typing import Any

from pydantic import ValidationError

from vde_dagster.base.texts import suggest
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.configuration.config_files import MergedSettings
from vde_dagster.project.configuration.sqlmesh.config import (
    PARTS,
    Config,
    GatewayConfig,
    ModelDefaultsConfig,
    Shape,
    unused_keys,
)
from vde_dagster.project.configuration.sqlmesh.formats import RawConfig, merge_tables, read_config
from vde_dagster.project.configuration.sqlmesh.notifications import have_targets, notify_table
from vde_dagster.project.settings import PYPROJECT
from vde_dagster.project.yaml_text import KeyPath


def merge_config(root: Path, own: Mapping[str, Any]) -> MergedSettings:
    """Convert a SQLMesh configuration to `[tool.vde]` keys, overridden by the keys in `own`."""
    written = read_config(root)
    assert written is not None, "a folder with a configuration file"
    converter = _SettingsConverter(written)
    ours, theirs = dict(_flatten(own)), dict(_flatten(converter.table))
    clashes = [
        name
        for name, value in ours.items()
        if str(theirs.get(name, value)) != str(value)
        and not (isinstance(value, dict) and isinstance(theirs[name], dict))
    ]
    warnings = []
    if len(converter.unused_keys) == 1:
        warnings.append(f"the key {converter.unused_keys[0]} has no effect")
    elif converter.unused_keys:
        warnings.append(
            f"{len(converter.unused_keys)} keys have no effect: {', '.join(converter.unused_keys)}"
        )
    if clashes:
        warnings.append(f"{PYPROJECT} overrides: {', '.join(clashes)}")
    places = {name: place for name, place in converter.places.items() if name not in ours}
    table = merge_tables(converter.table, own)
    return MergedSettings(written.path, table, places, tuple(warnings), written.seen)


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        yield f"{prefix}{key}", value
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")


_TIME = re.compile(r"(?:in\s+)?(\d{1,5})\s*(minute|hour|day|week|month|year)s?", re.IGNORECASE)
_HOURS = {"minute": 1 / 60, "hour": 1, "day": 24, "week": 168, "month": 720, "year": 8760}
_MODEL_SETTINGS = ("dialect", "cron", "cron_tz", "owner", "start")
"""Keys of `model_defaults` that become top-level keys of `[tool.vde]`."""
_SETTINGS = {
    "project": "name",
    "ignore_patterns": "ignore_patterns",
    "environment_suffix_target": "environment_suffix_target",
    "virtual_environment_mode": "virtual_environment_mode",
    "time_column_format": "time_column_format",
    "default_target_environment": "dagster.default_environment",
    "before_all": "before_all",
    "after_all": "after_all",
    "pinned_environments": "pinned_environments",
    "plan.forward_only": "forward_only",
    "plan.no_diff": "no_diff",
    "model_naming.infer_names": "infer_names",
}
"""Settings that take the value of a configuration key unchanged, by that key."""


class _SettingsConverter:
    def __init__(self, written: RawConfig) -> None:
        self.written = written
        self.table: dict[str, Any] = {}
        """Keys and values of `[tool.vde]`."""
        self.places: dict[str, SourceLocation] = {}
        """Source location of each setting's value, by the setting's dotted name."""
        self.unused_keys: list[str] = []
        """Dotted names of keys without an effect."""
        self.mistakes: list[ProjectError] = []
        values = dict(written.values)
        gateways, at = self._read_gateways(values)
        config = self._check(Config, values, ())
        for key, value in values.items():
            if key in PARTS and isinstance(value, Mapping):
                self._note_unused(PARTS[key], value, key)
        self._note_unused(Config, values, "")
        if config is not None and not self.mistakes:
            self._convert_settings(config.model_dump(exclude_unset=True))
            self._apply_gateway(values, gateways, at)
            if not gateways:
                self._set_catalog(values.get("default_connection"), ("default_connection",))
        if self.mistakes:
            lined = ((one.location.line if one.location else 0) or 0 for one in self.mistakes)
            in_order = sorted(zip(lined, self.mistakes, strict=True), key=itemgetter(0))
            raise ProjectError.combine([one for _, one in in_order])

    def _check(self, part: type[Shape], values: Mapping[str, Any], keys: KeyPath) -> Shape | None:
        try:
            return part.model_validate(dict(values))
        except ValidationError as error:
            found = [self._type_mistake(part, one, keys) for one in error.errors()]
            self.mistakes += {str(one.location): one for one in found[::-1]}.values()
            return None

    def _type_mistake(self, part: type[Shape], one: Any, keys: KeyPath) -> ProjectError:
        loc = one["loc"]
        inside = loc[: 2 if loc and loc[0] in PARTS else 1]
        place = (*keys, *inside)
        name = ".".join(str(key) for key in place)
        if one["type"] == "extra_forbidden":
            owner = PARTS[loc[0]] if len(inside) > 1 else part
            hint = suggest(str(inside[-1]), list(owner.model_fields), "keys")
            return self.written.error(place, f"unknown key '{name}'", hint)
        message = str(one["msg"]).lower()
        return self.written.error(place, f"key '{name}': {message}", "correct the value")

    def _add_mistake(self, keys: KeyPath, message: str, hint: str) -> None:
        self.mistakes.append(self.written.error(keys, message, hint))

    def _note_unused(self, part: type[Shape], values: Mapping[str, Any], prefix: str) -> None:
        for key in values:
            dotted = f"{prefix}.{key}" if prefix else str(key)
            idle = dotted == "users" and not have_targets(values[key])
            if (idle or key in unused_keys(part)) and dotted not in self.unused_keys:
                self.unused_keys.append(dotted)

    def _read_gateways(self, values: dict[str, Any]) -> tuple[dict[str, Any], str]:
        at = "gateways" if "gateways" in values else "gateway"
        given = values.get(at)
        if given is None:
            values.pop(at, None)
            return {}, at
        if not isinstance(given, Mapping):
            self._add_mistake((at,), f"'{at}' must be a table of gateways", "write name: …")
            return {}, at
        alone = bool(given) and all(key in GatewayConfig.model_fields for key in given)
        gateways = {"": given} if alone else {str(key): own for key, own in given.items()}
        for name, own in gateways.items():
            keys: KeyPath = (at, name) if name else (at,)
            if isinstance(own, Mapping):
                self._check(GatewayConfig, own, keys)
                self._note_unused(GatewayConfig, own, f"{at}.*" if name else at)
            elif own is not None:
                self._add_mistake(keys, f"gateway '{name}' is not a table", "write connection:")
        return gateways, at

    def _apply_gateway(
        self, values: Mapping[str, Any], gateways: Mapping[str, Any], at: str
    ) -> None:
        if not gateways:
            return
        wanted = str(values.get("default_gateway") or "")
        lowered = {name.lower(): name for name in gateways}
        if wanted and wanted.lower() not in lowered:
            hint = suggest(wanted, gateways, "gateways")
            self._add_mistake(("default_gateway",), f"there is no gateway '{wanted}'", hint)
            return
        name = lowered[wanted.lower()] if wanted else next(iter(gateways))
        own = gateways[name]
        if isinstance(own, Mapping):
            keys: KeyPath = (at, name) if name else (at,)
            if name:
                self.table.setdefault("variables", {}).setdefault("gateway", name.lower())
            self._convert_variables(own.get("variables"), (*keys, "variables"))
            self._convert_model_defaults(own.get("model_defaults"), (*keys, "model_defaults"))
            connection = own.get("connection") or values.get("default_connection")
            self._set_catalog(connection, (*keys, "connection"))

    def _set_catalog(self, connection: Any, keys: KeyPath) -> None:
        catalog = _default_catalog(connection)
        if catalog is not None:
            self._set(keys, "", "catalogs", catalog.lower())

    def _set(self, keys: KeyPath, value: Any, *setting: str) -> None:
        table = self.table
        for part in setting[:-1]:
            table = table.setdefault(part, {})
        table[setting[-1]] = value
        self.places[".".join(setting)] = self.written.location(keys)

    def _convert_settings(self, values: Mapping[str, Any]) -> None:
        for name, setting in _SETTINGS.items():
            *part, key = name.split(".")
            value = (values.get(part[0], {}) if part else values).get(key)
            if value:
                self._set((*part, key), _json_value(value), *setting.split("."))
        if "environment_ttl" in values:
            hours = self._parse_hours("environment_ttl", values["environment_ttl"])
            days = 0 if hours is None else max(math.ceil(hours / 24), 1)
            self._set(("environment_ttl",), days, "environment_ttl_days")
        if values.get("snapshot_ttl"):
            hours = self._parse_hours("snapshot_ttl", values["snapshot_ttl"]) or 0
            self._set(("snapshot_ttl",), math.ceil(hours), "janitor_grace_hours")
        self._convert_targets(values)
        self._convert_linter(values.get("linter"))
        self._convert_format(values.get("format"))
        self._convert_variables(values.get("variables"), ("variables",))
        self._convert_model_defaults(values.get("model_defaults"), ("model_defaults",))

    def _convert_targets(self, values: Mapping[str, Any]) -> None:
        given = {}
        for key in ("notification_targets", "users"):
            try:
                given[key] = _json_value(values.get(key))
            except TypeError as error:
                message = f"key '{key}' has a {error}"
                self._add_mistake((key,), message, "use only texts, numbers, lists and tables")
                return
        targets, users = given["notification_targets"], given["users"]
        table, unread = notify_table(targets, users, self.written.seen.variables)
        self.unused_keys += unread
        for part, places in (("targets", "notification_targets"), ("owners", "users")):
            for name, value in table.get(part, {}).items():
                self._set((places,), value, "notify", part, name)
                place = self.written.location((places,))
                self.places[f"notify.{part}.{name}.url"] = place

    def _convert_linter(self, given: Any) -> None:
        if given is None:
            return
        self._set(("linter",), bool(given.get("enabled")), "linter", "enabled")
        for key in ("rules", "warn_rules", "ignored_rules"):
            rules = given.get(key) or ()
            names = [rules] if isinstance(rules, str) else sorted(rules)
            if names:
                self._set(("linter", key), [name.lower() for name in names], "linter", key)

    def _convert_format(self, given: Any) -> None:
        if given is None:
            return
        for key in ("indent", "pad", "max_text_width", "leading_comma"):
            if key in given:
                self._set(("format", key), given[key], "format", key)
        functions = given.get("normalize_functions")
        if functions:  # True is SQLGlot's own word for capitals.
            text = "upper" if functions is True else str(functions).lower()
            self._set(("format", "normalize_functions"), text, "format", "normalize_functions")

    def _parse_hours(self, key: str, value: Any) -> float | None:
        if value is None:
            return None
        found = _TIME.fullmatch(str(value).strip())
        if found is None:
            message = f"key '{key}': '{value}' is not a length of time"
            self._add_mistake((key,), message, "write 'in 1 week'")
            return 1
        return int(found[1]) * _HOURS[found[2].lower()]

    def _convert_variables(self, given: Any, keys: KeyPath) -> None:
        for name, value in (given or {}).items():
            try:
                self._set((*keys, name), _json_value(value), "variables", str(name).lower())
            except TypeError:
                self._add_mistake(
                    (*keys, name),
                    f"variable '{name}' is a {type(value).__name__}",
                    "write a text, number, true, false, or a list or table of such values",
                )

    def _convert_model_defaults(self, given: Any, keys: KeyPath) -> None:
        if given is None:
            return
        self._note_unused(ModelDefaultsConfig, given, ".".join(map(str, keys)))
        for key, value in given.items():
            place = (*keys, key)
            if value is None or key in unused_keys(ModelDefaultsConfig):
                continue
            if key == "dialect":
                # After the comma comes how SQLMesh compares names.
                self._set(place, str(value).partition(",")[0].strip().lower() or "spark", key)
            elif key == "start" and not _is_day(value):
                self._set(place, _json_value(value), "model_defaults", key)
            elif key in _MODEL_SETTINGS:
                self._set(place, value if key == "start" else str(value), key)
            else:
                self._set(place, _json_value(value), "model_defaults", key)


def _is_day(value: Any) -> bool:
    if isinstance(value, datetime):
        return False
    return isinstance(value, date) or bool(re.fullmatch(r"\d{4}-\d{2}-\d{2}", str(value)))


def _json_value(value: Any) -> Any:
    """Convert a value to a JSON value; dates become texts.

    Raises:
        TypeError: A type is not supported; the message is its name.
    """
    if isinstance(value, Enum):
        return _json_value(value.value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): _json_value(own) for key, own in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(_json_value, value), key=str)
    if isinstance(value, list | tuple):
        return [_json_value(own) for own in value]
    if hasattr(value, "model_dump"):
        return _json_value(value.model_dump(exclude_unset=True))
    raise TypeError(type(value).__name__)


_KEYS = {
    **dict.fromkeys(("databricks", "spark", "trino"), "catalog"),
    **dict.fromkeys(("snowflake", "postgres", "gcp_postgres", "redshift"), "database"),
    **dict.fromkeys(("mssql", "azuresql", "fabric"), "database"),
    "bigquery": "project",
}
"""The key that names a connection's catalog, by type of engine."""


def _default_catalog(connection: Any) -> str | None:
    """Return the default catalog of a connection, if any.

    >>> _default_catalog({"type": "duckdb", "database": "data/shop.duckdb"})
    'shop'
    """
    if not isinstance(connection, Mapping):
        return None
    type_ = str(connection.get("type") or "").lower()
    if type_ not in ("duckdb", "motherduck"):
        value = connection.get(_KEYS.get(type_, ""))
        return value if isinstance(value, str) and value else None
    catalogs, database = connection.get("catalogs"), connection.get("database")
    if isinstance(catalogs, Mapping) and catalogs:
        return str(next(iter(catalogs)))
    if not isinstance(database, str) or database in ("", ":memory:"):
        return "memory"
    return PurePath(database.removeprefix("md:")).stem
