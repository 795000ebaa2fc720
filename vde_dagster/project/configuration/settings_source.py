"""Reading of settings from `pyproject.toml` and `VDE_…`; Pydantic checks their types."""

from __future__ import annotations

import dataclasses
import os
import pickle
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime, time
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from vde_dagster.base.plugins import Seam
from vde_dagster.base.texts import closest_by_one_letter, suggest
from vde_dagster.base.times import parse_instant, utc
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.configuration.check_values import check_values
from vde_dagster.project.configuration.config_files import config_files
from vde_dagster.project.configuration.places import SettingPlaces
from vde_dagster.project.files import decode_text
from vde_dagster.project.python.watching import Seen
from vde_dagster.project.settings import (
    ENV_PREFIX,
    NOT_SET,
    PYPROJECT,
    CostSettings,
    DagsterSettings,
    LayoutOptions,
    LinterSettings,
    PluginSettings,
    RestSettings,
    Settings,
    SparkSettings,
    set_in_environment,
)
from vde_dagster.sql.scanner import SourceText, nesting_error

_FIELDS = tuple(f for f in dataclasses.fields(Settings) if f.name not in NOT_SET)
_NESTED: dict[str, type[Any]] = {
    "spark": SparkSettings,
    "dagster": DagsterSettings,
    "linter": LinterSettings,
    "rest": RestSettings,
    "cost": CostSettings,
    "format": LayoutOptions,
}
_PLUGINS: Seam[type[PluginSettings]] = Seam("settings")
_HINTS = {
    "environment_suffix_target": "write schema (sales__dev.orders) or table (sales.orders__dev); "
    "catalog is not supported, because a publication is one transaction of one Iceberg catalog"
}
"""Hints on invalid values, for settings whose type does not explain them."""


def read_settings_and_inputs(root: Path) -> tuple[Settings, Seen]:
    """Read a project's settings, and list files and variables that SQLMesh's configuration read.

    Settings come from `pyproject.toml` and from SQLMesh's configuration files; `[tool.vde]`
    overrides SQLMesh's file key by key. Environment variables override both: `VDE_CONCURRENCY=8`,
    `VDE_SPARK__MASTER=local[2]`. All other settings have their defaults.
    """
    root = root.resolve()
    text, tools = read_tools(root)
    table = tools.get("vde", {})
    if not isinstance(table, dict):
        raise SettingPlaces(text).problem("", "tool.vde must be a table", "write [tool.vde]")
    tables = _plugin_tables(table)
    unknown = list(_unknown_keys(table, "", SettingPlaces(text), {**_NESTED, **tables}))
    if unknown:
        raise ProjectError.combine(unknown)
    config_file, seen = "", Seen()
    warnings: tuple[str, ...] = ()
    taken: Mapping[str, SourceLocation] = {}
    if config_files(root):
        # Its types need Pydantic, which takes a quarter of a second to import.
        from vde_dagster.project.configuration.sqlmesh.settings import merge_config

        merged = merge_config(root, table)
        config_file, warnings = merged.path.as_posix(), merged.warnings
        table, taken, seen = merged.table, merged.places, merged.seen
        tables = _plugin_tables(table)
    places = SettingPlaces(text, taken)
    # Skip Pydantic, a quarter of a second to import, for a project without settings.
    values = _validate(table, places, tables) if table or set_in_environment() else {}
    plugins: dict[str, PluginSettings] = {name: values.pop(name) for name in tables}
    named = bool(values.get("name"))
    if not named:
        values["name"] = root.name
    settings = Settings(
        root=root, **values, config_file=config_file, config_warnings=warnings, named=named
    )
    check_values(settings, plugins, places)
    return dataclasses.replace(
        settings,
        plugins={name: dataclasses.asdict(own) for name, own in plugins.items()},
        catalog_type=next(
            (name for name, own in plugins.items() if own.catalog_key()), settings.catalog_type
        ),
    ), seen


def read_tools(root: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of `pyproject.toml` and its table `tool`; both are empty without a file.

    Raises:
        ProjectError: The file is not valid TOML.
    """
    path = root / PYPROJECT
    if not path.is_file():
        return "", {}
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # pragma: no cover - tomli is the same parser under another name
        import tomli as tomllib
    text = decode_text(PYPROJECT, path.read_bytes())
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise nesting_error(SourceText(PYPROJECT, text)) from None
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+), column (\d+)", str(error))
        line, column = (int(found[1]), int(found[2])) if found else (None, None)
        raise ProjectError(
            f"this is not valid TOML: {error}",
            hint="correct the file; see https://toml.io",
            location=SourceLocation(PYPROJECT, line, column),
        ) from error
    except ValueError as error:
        # Python refuses to read integers of thousands of digits, without their place.
        found = re.search(r"\d[\d_]{999,}", text)
        line = text.count("\n", 0, found.start()) + 1 if found else None
        raise ProjectError(
            "a number has thousands of digits",
            hint="write it as a text, in quotes",
            location=SourceLocation(PYPROJECT, line),
        ) from error
    tools = document.get("tool", {})
    return text, tools if isinstance(tools, dict) else {}


def _plugin_tables(table: Mapping[str, Any]) -> dict[str, type[PluginSettings]]:
    core = {f.name for f in _FIELDS}
    named = {
        name[len(ENV_PREFIX) :].partition("__")[0].lower()
        for name, value in os.environ.items()
        if name.upper().startswith(ENV_PREFIX) and ("__" in name or value.startswith("{"))
    }
    asked = {name: _PLUGINS.find(name) for name in sorted({*table, *named} - core)}
    return {name: found for name, found in asked.items() if found is not None}


def _unknown_keys(
    table: Mapping[str, Any], prefix: str, places: SettingPlaces, nested: Mapping[str, type[Any]]
) -> Iterator[ProjectError]:
    owner = nested[prefix] if prefix else Settings
    known = [f.name for f in dataclasses.fields(owner) if f.name not in NOT_SET]
    known += [] if prefix else [name for name in nested if name not in _NESTED]
    for key, value in table.items():
        dotted = f"{prefix}.{key}" if prefix else key
        if key == "timezone":
            yield places.problem(dotted, "timezone is not supported", "times are UTC; see cron_tz")
        elif key not in known:
            others = [] if prefix else _PLUGINS.names()
            hint = suggest(key, [*known, *others])
            yield places.problem(dotted, f"unknown setting '{dotted}'", hint)
        elif not prefix and key in nested and isinstance(value, dict):
            yield from _unknown_keys(value, key, places, nested)


def _validate(
    table: Mapping[str, Any], places: SettingPlaces, plugins: Mapping[str, type[PluginSettings]]
) -> dict[str, Any]:
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    names = sorted(name for name in os.environ if name.upper().startswith(ENV_PREFIX))
    known = {f.name for f in _FIELDS}
    for name in names:
        # Other programs may have variables with this prefix, so only a typing error is refused.
        own = name[len(ENV_PREFIX) :].partition("__")[0].lower()
        meant = closest_by_one_letter(own, known) if own not in known and len(own) > 3 else None
        if meant is not None and own not in _PLUGINS.names():
            message = f"the environment variable {name} sets nothing"
            raise ProjectError(message, hint=f"did you mean {ENV_PREFIX}{meant.upper()}?")
    variables = tuple((name, os.environ[name]) for name in names)
    try:
        return dict(_check_types(tuple(plugins.items()), pickle.dumps(table), variables))
    except ValidationError as error:
        # A value of a union type has an error for each member.
        found = {one["loc"][:2]: one for one in reversed(error.errors())}
        nested = {**_NESTED, **plugins}
        raise ProjectError.combine(
            [_type_error(found[loc], places, nested) for loc in reversed(found)]
        ) from None
    except SettingsError as error:
        raise ProjectError(
            f"an environment variable cannot be read: {error}",
            hint='write lists and tables as JSON, for example ["a", "b"]',
        ) from None


@lru_cache(maxsize=8)
def _check_types(
    plugins: tuple[tuple[str, type[PluginSettings]], ...],
    table: bytes,
    variables: tuple[tuple[str, str], ...],
) -> dict[str, Any]:
    """Check the settings in a pickled table and in environment variables; return them by name."""
    model = _source_class(plugins)(**pickle.loads(table))
    names = (*(f.name for f in _FIELDS), *(name for name, _ in plugins))
    return {name: getattr(model, name) for name in names}


def _type_error(one: Any, places: SettingPlaces, nested: Mapping[str, type[Any]]) -> ProjectError:
    key = ".".join(str(part) for part in one["loc"])
    from_env = _environment_name(one["loc"])
    given = "" if from_env or _is_secret(one["loc"], nested) else f" (given: {one['input']!r})"
    message = f"setting '{key}': {one['msg'].lower()}{given}"
    hint = _HINTS.get(key, "correct the value")
    if one["type"] == "unexpected_keyword_argument":
        message, hint = f"unknown setting '{key}'", "correct the name, or remove it"
    if from_env:
        return ProjectError(message, hint=f"correct {from_env} in the environment")
    return places.problem(key, message, hint)


@cache
def _source_class(plugins: tuple[tuple[str, type[PluginSettings]], ...]) -> Any:
    from pydantic import BeforeValidator, Field, create_model
    from pydantic.fields import FieldInfo
    from pydantic_settings import (
        BaseSettings,
        EnvSettingsSource,
        PydanticBaseSettingsSource,
        SettingsConfigDict,
    )

    class EnvironmentVariables(EnvSettingsSource):
        def next_field(
            self, field: FieldInfo | Any | None, key: str, case_sensitive: bool | None = None
        ) -> FieldInfo | None:
            kind = field.annotation if isinstance(field, FieldInfo) else field
            if not dataclasses.is_dataclass(kind):
                return super().next_field(field, key, case_sensitive)
            inner = get_type_hints(kind).get(key.lower())
            return None if inner is None else FieldInfo.from_annotation(inner)

    class EnvironmentFirst(BaseSettings):
        model_config = SettingsConfigDict(
            env_prefix=ENV_PREFIX,
            env_nested_delimiter="__",
            extra="ignore",
            protected_namespaces=(),
        )

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return EnvironmentVariables(settings_cls), init_settings

    hints = get_type_hints(Settings)
    fields: dict[str, Any] = {
        item.name: (
            hints[item.name],
            item.default
            if item.default_factory is dataclasses.MISSING
            else Field(default_factory=item.default_factory),
        )
        for item in _FIELDS
    }
    fields["start"] = (Annotated[date | None, BeforeValidator(_parse_day)], None)
    fields |= {name: (owner, Field(default_factory=owner)) for name, owner in plugins}
    return create_model("SettingsSource", __base__=EnvironmentFirst, **fields)


def _parse_day(value: Any) -> Any:
    """Parse a date, such as `2024-01-31`; refuse numbers."""
    # Pydantic would read a number as seconds since 1970.
    from pydantic_core import PydanticCustomError

    if value is None or type(value) is date:
        return value
    with suppress(ValueError):
        instant = utc(value) if isinstance(value, datetime) else parse_instant(str(value))
        if isinstance(value, str | datetime) and instant.time() == time():
            return instant.date()
    raise PydanticCustomError("day", "input should be a date such as 2024-01-31")


def _environment_name(location: tuple[int | str, ...]) -> str | None:
    parts = [str(part).upper() for part in location]
    for count in range(len(parts), 0, -1):
        name = ENV_PREFIX + "__".join(parts[:count])
        if name in {key.upper() for key in os.environ}:
            return name
    return None


def _is_secret(location: tuple[int | str, ...], nested: Mapping[str, type[Any]]) -> bool:
    first, *below = map(str, location)
    owner, name = (nested[first], below[0]) if below and first in nested else (Settings, first)
    return any(f.name == name and not f.repr for f in dataclasses.fields(owner))
