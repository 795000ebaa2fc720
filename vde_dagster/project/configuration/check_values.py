"""Checks of settings that have the right types: ranges, folders, names, and combinations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from math import inf
from typing import Any

from vde_dagster.base.plugins import Seam
from vde_dagster.base.texts import printable, suggest
from vde_dagster.base.times import zone_name
from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.project.configuration.places import SettingPlaces
from vde_dagster.project.kinds.time_format import format_problem
from vde_dagster.project.settings import PluginSettings, Settings


def check_values(
    settings: Settings, plugins: Mapping[str, PluginSettings], places: SettingPlaces
) -> None:
    """Raise a ProjectError for the first invalid value, or for all invalid model defaults."""
    found = chain(
        _wrong_numbers(settings),
        _wrong_folders(settings),
        _wrong_addresses(settings),
        _wrong_times(settings),
        _wrong_plugins(settings),
        _wrong_catalogs(settings, plugins),
        _wrong_texts(settings),
    )
    wrong = next(found, None)
    if wrong is not None:
        raise places.problem(*wrong)
    if settings.model_defaults:
        from vde_dagster.project.reading.model_defaults import default_mistakes

        mistakes = [
            places.problem(f"model_defaults.{key}", one.message, one.hint or "correct the value")
            for key, one in default_mistakes(settings)
        ]
        if mistakes:
            raise ProjectError.combine(mistakes)


_Findings = Iterator[tuple[str, str, str]]
"""Names of settings, each with an error and a hint."""


_MOST_DAYS = 365_000
"""Maximum of settings in days. Python can represent today's date plus or minus this maximum."""


def _wrong_numbers(settings: Settings) -> _Findings:
    counts = ("concurrency", "load_seconds", "history_versions", "history_days")
    for key in (*counts, "change_view_versions"):
        if getattr(settings, key) < 1:
            yield key, f"setting '{key}' must be 1 or more", "increase it"
    for key, zero in (
        *(("environment_ttl_days", "unlimited"), ("load_processes", "one per core")),
        *(("janitor_grace_hours", "none"), ("orphan_grace_hours", "none")),
        *(("snapshot_retention_days", "none"), ("reader_hold_days", "none")),
    ):
        if getattr(settings, key) < 0:
            yield key, f"setting '{key}' must be 0 or more", f"0 means {zero}"
    days = ("history_days", "environment_ttl_days", "snapshot_retention_days", "reader_hold_days")
    hours = ("janitor_grace_hours", "orphan_grace_hours")
    for key, most in (*((k, _MOST_DAYS) for k in days), *((k, 24 * _MOST_DAYS) for k in hours)):
        if getattr(settings, key) > most:
            message = f"setting '{key}' is {getattr(settings, key)}, more than {most}"
            yield key, message, f"write {most} or less"
    for key in ("core_hour", "cores", "terabyte"):
        if not 0 <= getattr(settings.cost, key) < inf:
            message = f"setting 'cost.{key}' must be 0 or more, and finite"
            yield f"cost.{key}", message, "write a price in numbers"
    if not 0 <= settings.max_removed <= 1:
        yield "max_removed", "setting 'max_removed' must be between 0 and 1", "write a fraction"
    if settings.spark.warm_minutes <= 0:
        message = "setting 'spark.warm_minutes' must be more than 0"
        yield "spark.warm_minutes", message, "warm = false starts no background Spark"


def _wrong_folders(settings: Settings) -> _Findings:
    for key in ("models_dir", "audits_dir", "macros_dir", "seeds_dir", "tests_dir"):
        folder = getattr(settings, key)
        parts = re.split(r"[/\\]", folder.strip("/"))
        if folder.startswith(("/", "\\")) or ".." in parts or "\0" in folder or ":" in parts[0]:
            message = f"setting '{key}' is '{printable(folder)}', outside of the project's folder"
            yield key, message, f"write a folder of the project, such as {key.partition('_')[0]}"


def _wrong_addresses(settings: Settings) -> _Findings:
    url = settings.docs_url
    if url is not None and not re.fullmatch(r"https?://[^\s#]+", url):
        hint = "write the address of the site's index.html: https://docs.example.com/lake"
        yield "docs_url", f"setting 'docs_url' is not a valid address: '{url}'", hint


def _wrong_times(settings: Settings) -> _Findings:
    from vde_dagster.base.cron import normalise_cron

    dagster = settings.dagster
    crons = {"cron": settings.cron, "dagster.janitor_cron": dagster.janitor_cron}
    crons |= {f"dagster.schedules.{name}": cron for name, cron in dagster.schedules.items()}
    for key, cron in crons.items():
        try:
            normalise_cron(cron)
        except ValueError as error:
            yield key, f"setting '{key}': {error}", "write @daily or 0 5 * * *"
    zones = {"cron_tz": settings.cron_tz, "dagster.schedule_tz": dagster.schedule_tz}
    for key, zone in zones.items():
        try:
            if zone is not None:
                zone_name(zone)
        except LookupError as error:
            yield key, f"setting '{key}': '{zone}' is not a time zone", error.args[0]
    if settings.time_column_format is not None:
        wrong = format_problem(settings.time_column_format)
        if wrong is not None:
            key = "time_column_format"
            yield key, f"setting '{key}': {wrong}", "write '%Y-%m-%d'"


def _wrong_texts(settings: Settings) -> _Findings:
    for key in ("id", "name"):
        if len(getattr(settings, key)) > 255:
            yield key, f"setting '{key}' has more than 255 characters", "shorten it"
    for key, wildcards in (("pinned_environments", False), ("protected", True)):
        for name in getattr(settings, key):
            if hint := Settings.environment_hint(name, wildcards=wildcards):
                yield key, f"setting '{key}': '{name}' matches no environment's name", hint
    prefix = settings.dagster.prefix
    if not re.fullmatch(r"([A-Za-z][A-Za-z0-9_]*)?", prefix):
        message = f"setting 'dagster.prefix': '{prefix}' is not a valid name"
        yield "dagster.prefix", message, "use letters, digits and _, starting with a letter"
    if settings.dialect != "spark":
        from sqlglot.dialects import DIALECTS

        known = sorted(name.lower() for name in DIALECTS)
        if settings.dialect not in known:
            hint = suggest(settings.dialect, known)
            yield "dialect", f"unknown SQL dialect '{settings.dialect}'", hint


def _wrong_plugins(settings: Settings) -> _Findings:
    dialects = settings.view_catalogs.keys() - {"trino"}
    asked = [("sources", "sources", name) for name in settings.sources]
    asked += [("view_catalogs", "view_dialects", name) for name in sorted(dialects)]
    if settings.catalog_type:
        asked.append(("catalog_type", "catalogs", settings.catalog_type))
    for key, seam, name in asked:
        parts: Seam[Any] = Seam(seam)
        try:
            parts.require(name)
        except UsageError as error:
            yield key, f"setting '{key}': {error.message}", error.hint or "correct it"


def _wrong_catalogs(settings: Settings, plugins: Mapping[str, PluginSettings]) -> _Findings:
    for name, own in plugins.items():
        for key, wrong, hint in own.mistakes():
            yield f"{name}.{key}", f"setting '{name}.{key}' {wrong}", hint
    rest = settings.rest
    given = {"catalog_type": settings.catalog_type, "rest.uri": rest.uri}
    named = [key for key, value in given.items() if value]
    named += [f"{name}.{own.catalog_key()}" for name, own in plugins.items() if own.catalog_key()]
    trino = settings.view_catalogs.get("trino", settings.trino_catalog)
    if settings.trino_catalog and trino != settings.trino_catalog:
        message = "settings 'trino_catalog' and 'view_catalogs.trino' differ"
        yield "view_catalogs", message, "remove one of them"
    if settings.catalog_options and named in ([], ["rest.uri"]):
        message = "setting 'catalog_options' is given without 'catalog_type'"
        hint = "set catalog_type to the name of the catalog plug-in, or remove catalog_options"
        yield "catalog_options", message, hint
    if len(named) > 1:
        message = f"settings '{named[0]}' and '{named[1]}' select two different catalogs"
        yield named[0], message, "remove one of them"
    if not rest.uri:
        for key in ("warehouse", "token", "credential", "oauth2_uri", "mirror", "properties"):
            if getattr(rest, key):
                message = f"setting 'rest.{key}' is given without 'rest.uri'"
                yield f"rest.{key}", message, "set rest.uri to the REST catalog"
        return
    if not rest.uri.startswith(("http://", "https://")) or rest.uri.rstrip("/").endswith("/v1"):
        message = "setting 'rest.uri' is not the base address of an Iceberg REST catalog"
        hint = "write https://catalog.example/api, without the /v1 of its routes"
        yield "rest.uri", message, hint
    if settings.change_views:
        message = "setting 'change_views' requires a catalog that publishes views atomically"
        yield "change_views", message, "remove it, and read changes with `vde changes`"
    if rest.token is not None and rest.credential is not None:
        message = "settings 'rest.token' and 'rest.credential' cannot be combined"
        yield "rest.credential", message, "remove one of them"
    if rest.credential is not None and ":" not in rest.credential and "${" not in rest.credential:
        message = "setting 'rest.credential' has no secret"
        yield "rest.credential", message, "write ${CLIENT_ID}:${CLIENT_SECRET}"
