"""Reading and checking the settings: `pyproject.toml` and `VDE_…`, through Pydantic."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from vde_dagster.base.suggestions import suggest
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.reading.text_files import decoded
from vde_dagster.project.settings import (
    ENV_PREFIX,
    DagsterSettings,
    Settings,
    SparkSettings,
    set_in_environment,
)
from vde_dagster.sql.nesting import nested_too_deeply
from vde_dagster.sql.scanner import SourceText

_PYPROJECT = Path("pyproject.toml")
_FIELDS = tuple(f for f in dataclasses.fields(Settings) if f.name != "root")
_NESTED = {"spark": SparkSettings, "dagster": DagsterSettings}
_HINTS = {
    "environment_suffix_target": "write schema (sales__dev.orders) or table (sales.orders__dev); "
    "catalog cannot be: a publication is one transaction of one Iceberg catalog"
}
"""What to do about a wrong value, where its type does not say it."""


def load_settings(root: Path) -> Settings:
    """Read a project's settings; a folder without `pyproject.toml` has the defaults.

    A project without `[tool.vde]` that has SQLMesh's `config.yaml` takes over the defaults of its
    models. Environment variables win: `VDE_CONCURRENCY=8`, `VDE_SPARK__MASTER=local[2]`.

    Args:
        root: The project's folder.

    Raises:
        ProjectError: The file is not TOML, a key is unknown or a value is wrong.
    """
    root = root.resolve()
    text, table = _read_table(root)
    if not table:
        table = _sqlmesh_defaults(root)
    _check_keys(table, "", text)
    # Pydantic is a quarter of a second to import: not for a project that sets nothing.
    values = _validate(table, text) if table or set_in_environment() else {}
    if not values.get("name"):
        values["name"] = root.name
    settings = Settings(root=root, **values)
    _check_values(settings, text)
    return settings


def _read_table(root: Path) -> tuple[str, dict[str, Any]]:
    text, tools = read_tools(root)
    table = tools.get("vde", {})
    if not isinstance(table, dict):
        raise _problem("", "tool.vde has to be a table", text, "write [tool.vde]")
    return text, table


def read_tools(root: Path) -> tuple[str, dict[str, Any]]:
    """Read what a folder's `pyproject.toml` says to tools.

    Args:
        root: The folder.

    Returns:
        The file's text, and `[tool]`; both empty where there is none.

    Raises:
        ProjectError: The file is no TOML.
    """
    path = root / _PYPROJECT
    if not path.is_file():
        return "", {}
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # pragma: no cover - tomli is the same parser under another name
        import tomli as tomllib
    text = decoded(_PYPROJECT, path.read_bytes())
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise nested_too_deeply(SourceText(_PYPROJECT, text)) from None
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+), column (\d+)", str(error))
        line, column = (int(found[1]), int(found[2])) if found else (None, None)
        raise ProjectError(
            f"this is not valid TOML: {error}",
            hint="correct the file; see https://toml.io",
            location=SourceLocation(_PYPROJECT, line, column),
        ) from error
    tools = document.get("tool", {})
    return text, tools if isinstance(tools, dict) else {}


def _sqlmesh_defaults(root: Path) -> dict[str, Any]:
    """Take over what `config.yaml` of a SQLMesh project says about its models.

    Its gateways and other settings mean nothing here.
    """
    path = root / "config.yaml"
    if not path.is_file():
        return {}
    from vde_dagster.project.reading.yaml_lines import load_yaml

    document = load_yaml(Path("config.yaml"), decoded(Path("config.yaml"), path.read_bytes()))
    config = document.value if isinstance(document.value, dict) else {}
    defaults = config.get("model_defaults")
    found = {
        key: value
        for key, value in (defaults if isinstance(defaults, dict) else {}).items()
        if key in ("dialect", "start", "cron", "owner") and value is not None
    }
    if "start" in found and not isinstance(found["start"], date):
        text = str(found["start"])
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            raise document.error(
                ("model_defaults", "start"), f"'{text}' is not a date", "write it as 2013-01-31"
            )
    if isinstance(config.get("variables"), dict):
        found["variables"] = config["variables"]
    return found


def _check_keys(table: Mapping[str, Any], prefix: str, text: str) -> None:
    owner = _NESTED[prefix] if prefix else Settings
    known = [f.name for f in dataclasses.fields(owner) if f.name != "root"]
    for key, value in table.items():
        dotted = f"{prefix}.{key}" if prefix else key
        if key == "timezone":
            raise _problem(dotted, "time zones are not supported", text, "all times are UTC")
        if key not in known:
            raise _problem(dotted, f"unknown setting '{dotted}'", text, suggest(key, known))
        if not prefix and key in _NESTED and isinstance(value, dict):
            _check_keys(value, key, text)


def _validate(table: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Let pydantic-settings merge the table with the environment and check every type."""
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    try:
        model = _source_class()(**table)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        from_env = _environment_name(first["loc"])
        given = "" if from_env or _is_secret(key) else f" (given: {first['input']!r})"
        message = f"setting '{key}': {first['msg'].lower()}{given}"
        if from_env:
            raise ProjectError(message, hint=f"correct {from_env} in the environment") from None
        raise _problem(key, message, text, _HINTS.get(key, "correct the value")) from None
    except SettingsError as error:
        raise ProjectError(
            f"an environment variable cannot be read: {error}",
            hint='lists and tables are given as JSON, for example ["a", "b"]',
        ) from None
    return {f.name: getattr(model, f.name) for f in _FIELDS}


def _source_class() -> Any:
    from typing import get_type_hints

    from pydantic import Field, create_model
    from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

    class EnvironmentFirst(BaseSettings):
        """Settings whose environment variables win over what the file says."""

        model_config = SettingsConfigDict(
            env_prefix=ENV_PREFIX, env_nested_delimiter="__", extra="ignore"
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
            return env_settings, init_settings

    hints = get_type_hints(Settings)
    fields: dict[str, Any] = {}
    for item in _FIELDS:
        if item.default_factory is not dataclasses.MISSING:
            fields[item.name] = (hints[item.name], Field(default_factory=item.default_factory))
        else:
            fields[item.name] = (hints[item.name], item.default)
    return create_model("SettingsSource", __base__=EnvironmentFirst, **fields)


def _check_values(settings: Settings, text: str) -> None:
    """Check what types alone cannot say."""
    from vde_dagster.base.zones import zone_name
    from vde_dagster.project.reading.cron import normalise_cron

    for key in (
        "concurrency",
        "load_seconds",
        "history_versions",
        "history_days",
        "environment_ttl_days",
    ):
        if getattr(settings, key) < 1:
            raise _problem(key, f"setting '{key}' has to be 1 or more", text, "raise it")
    crons = {"cron": settings.cron, "dagster.janitor_cron": settings.dagster.janitor_cron}
    for name, cron in settings.dagster.schedules.items():
        crons[f"dagster.schedules.{name}"] = cron
    for key, cron in crons.items():
        try:
            normalise_cron(cron)
        except ValueError as error:
            raise _problem(
                key, f"setting '{key}': {error}", text, "write @daily or 0 5 * * *"
            ) from None
    zone = settings.dagster.schedule_tz
    try:
        zone_name(zone)
    except LookupError as error:
        key = "dagster.schedule_tz"
        message = f"setting '{key}': '{zone}' is not a time zone"
        raise _problem(key, message, text, error.args[0]) from None
    if not re.fullmatch(r"([A-Za-z][A-Za-z0-9_]*)?", settings.dagster.prefix):
        raise _problem(
            "dagster.prefix",
            f"setting 'dagster.prefix': '{settings.dagster.prefix}' is no name",
            text,
            "write letters, digits and _, a letter first",
        )
    _check_dialect(settings, text)


def _check_dialect(settings: Settings, text: str) -> None:
    if settings.dialect == "spark":
        return
    from sqlglot.dialects import DIALECTS

    known = sorted(name.lower() for name in DIALECTS)
    if settings.dialect not in known:
        raise _problem(
            "dialect",
            f"unknown SQL dialect '{settings.dialect}'",
            text,
            suggest(settings.dialect, known),
        )


def _environment_name(location: tuple[int | str, ...]) -> str | None:
    parts = [str(part).upper() for part in location]
    for count in range(len(parts), 0, -1):
        name = ENV_PREFIX + "__".join(parts[:count])
        if name in {key.upper() for key in os.environ}:
            return name
    return None


def _is_secret(key: str) -> bool:
    return key.split(".")[0] in ("state_url", "io", "variables") or key.startswith("spark.config")


def _problem(key: str, message: str, text: str, hint: str) -> ProjectError:
    return ProjectError(message, hint=hint, location=_locate(key, text))


def _locate(key: str, text: str) -> SourceLocation:
    """Find the line of a key in `[tool.vde]`, as well as a search can."""
    section = ""
    wanted = ["tool", "vde", *(key.split(".") if key else [])]
    section_line = None
    for number, line in _lines(text):
        header = re.match(r"\s*\[\s*([^\]]+?)\s*\]", line)
        if header:
            section = header[1].replace('"', "")
            if section.split(".") == wanted[: len(section.split("."))] and "vde" in section:
                section_line = number
            continue
        assignment = re.match(r"\s*([\w.\"-]+)\s*=", line)
        if assignment and section:
            path = [*section.split("."), *assignment[1].replace('"', "").split(".")]
            if path[: len(wanted)] == wanted or (len(path) > 2 and path == wanted[: len(path)]):
                return SourceLocation(_PYPROJECT, number)
    return SourceLocation(_PYPROJECT, section_line)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    return enumerate(text.splitlines(), start=1)
