"""Names, texts, hashes and settings, for every plug-in."""

from vde_dagster.base.hashing import digest
from vde_dagster.base.installing import how_to_install
from vde_dagster.base.json_values import json_value
from vde_dagster.base.names import ModelName, quote
from vde_dagster.base.secrets import mask
from vde_dagster.base.texts import count, listed, suggest
from vde_dagster.base.times import parse_instant
from vde_dagster.project.settings import PluginSettings, Settings, expand_secrets, with_secrets

__all__ = [
    "ModelName",
    "PluginSettings",
    "Settings",
    "count",
    "digest",
    "expand_secrets",
    "how_to_install",
    "json_value",
    "listed",
    "mask",
    "parse_instant",
    "quote",
    "suggest",
    "with_secrets",
]
