"""Names, texts, hashes and settings that plug-ins of every sort need."""

from vde_dagster.base.hashing import digest
from vde_dagster.base.installing import how_to_install
from vde_dagster.base.json_values import json_value, text_value
from vde_dagster.base.names import ModelName, quote
from vde_dagster.base.plugins import Seam
from vde_dagster.base.secrets import mask, names_secret
from vde_dagster.base.texts import count, listed, size, suggest
from vde_dagster.base.times import instant_text, parse_instant, parse_time
from vde_dagster.base.work import Work
from vde_dagster.project.secrets import expand_secrets
from vde_dagster.project.settings import PluginSettings, Settings

__all__ = [
    "ModelName",
    "PluginSettings",
    "Seam",
    "Settings",
    "Work",
    "count",
    "digest",
    "expand_secrets",
    "how_to_install",
    "instant_text",
    "json_value",
    "listed",
    "mask",
    "names_secret",
    "parse_instant",
    "parse_time",
    "quote",
    "size",
    "suggest",
    "text_value",
]
