"""Properties of a model's step in Dagster: retries, op tags, pool, automation."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vde_dagster.base.cron import normalise_cron
from vde_dagster.base.texts import suggest
from vde_dagster.base.times import parse_duration, zone_name
from vde_dagster.errors import UsageError
from vde_dagster.project.model import Automation, Retries
from vde_dagster.project.property_value import Value

_BACKOFFS = ("linear", "exponential")
_JITTERS = ("full", "plus_minus")
_CONDITIONS = ("eager", "on_missing", "on_cron")
_CONCURRENCY_TAG = "dagster/concurrency_key"
_TAG_KEY = re.compile(r"([A-Za-z0-9_.-]{1,63}/)?[A-Za-z0-9_.-]{1,63}")
"""Tag keys that Dagster accepts without a warning."""


def read_execution(given: Mapping[str, Value]) -> dict[str, Any]:
    """Read the properties for Dagster, such as `pool`, as fields of `Model`."""
    readers = {
        "retry_policy": _read_retries,
        "op_tags": _read_op_tags,
        "pool": _read_pool,
        "automation_condition": _read_automation,
    }
    return {name: read(given[name]) for name, read in readers.items() if name in given}


def _read_retries(value: Value) -> Retries:
    """Read `3`, or `(max_retries = 3, delay = '30 seconds', backoff = exponential)`."""
    if value.tokens and value.tokens[0].text not in ("(", "["):
        return Retries(value.integer(1))
    known = ("max_retries", "delay", "backoff", "jitter")
    pairs = {key.lower(): replace(one, name=value.name) for key, one in value.pairs()}
    if not pairs:
        raise value.error("retry_policy is empty", "write retry_policy 3")
    for key, one in pairs.items():
        if key not in known:
            raise one.error(f"retry_policy has no '{key}'", suggest(key, known, "its parts"))
    retries = pairs["max_retries"].integer(1) if "max_retries" in pairs else 1
    delay = _read_seconds(pairs["delay"]) if "delay" in pairs else None
    backoff, jitter = (
        _read_word(pairs[name], name, words) if name in pairs else None
        for name, words in (("backoff", _BACKOFFS), ("jitter", _JITTERS))
    )
    if delay is None and (backoff or jitter):
        raise value.error(
            "backoff and jitter change the delay, which is missing",
            "add delay = '30 seconds' to retry_policy (…)",
        )
    return Retries(retries, delay, backoff, jitter)


def _read_seconds(value: Value) -> float:
    text = value.text().strip()
    short = re.sub(r"(?<=[\d ])(second|minute|hour|day)s?\b", lambda found: found[1][0], text)
    seconds = re.fullmatch(r"(\d{1,7}(?:\.\d+)?)(?:\s*s)?", short)
    try:
        return float(seconds[1]) if seconds else parse_duration(short, "delay").total_seconds()
    except UsageError:
        raise value.error(
            f"'{text}' is not a length of time", "write delay = '30 seconds' or '5 minutes'"
        ) from None


def _read_word(value: Value, name: str, words: tuple[str, ...]) -> str:
    text = value.text().lower()
    if text not in words:
        raise value.error(f"unknown {name} '{text}'", suggest(text, words, "values"))
    return text


def _read_op_tags(value: Value) -> tuple[tuple[str, str], ...]:
    """Read `(key = value, …)`; nested tables and lists become JSON."""
    tags = {}
    for key, one in value.pairs():
        one = replace(one, name=value.name)
        if _TAG_KEY.fullmatch(key) is None:
            raise one.error(
                f"'{key}' is not a valid key of a Dagster tag",
                "write letters, digits, '_', '-' and '.', after an optional prefix and '/'",
            )
        if key == _CONCURRENCY_TAG:
            raise one.error(f"the tag '{key}' sets the pool", "write pool 'name' instead")
        plain = _read_plain_value(one)
        tags[key] = plain if isinstance(plain, str) else json.dumps(plain)
    return tuple(sorted(tags.items()))


def _read_plain_value(value: Value) -> Any:
    """Read a text, integer, boolean or null, a list in brackets, or a table of `key = value`."""
    if value.tokens and value.tokens[0].text in ("(", "["):
        items = value.items()
        is_table = any(token.text == "=" for item in items for token in item.tokens[:4])
        if is_table and value.tokens[0].text == "(":
            return {key: _read_plain_value(one) for key, one in value.pairs()}
        return [_read_plain_value(item) for item in items]
    text = value.text()
    if len(value.tokens) == 1 and value.tokens[0].text[0] in "'\"":
        return text
    words: dict[str, Any] = {"true": True, "false": False, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    return int(text) if re.fullmatch(r"-?\d{1,15}", text) else text


def _read_pool(value: Value) -> str:
    text = value.text()
    if not text or re.search(r"\s", text):
        raise value.error(f"'{text}' is not a valid name of a pool", "write a name without spaces")
    return text


def _read_automation(value: Value) -> Automation:
    """Read `eager`, `on_missing`, or `on_cron('@daily', 'Europe/Berlin')`."""
    text = value.text() if len(value.tokens) == 1 else value.raw
    hint = (
        "write eager, on_missing, or on_cron('0 5 * * *'); "
        "for other conditions, write a VdeTranslator"
    )
    found = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", text)
    name = found[1].lower() if found else ""
    if found is None or name not in _CONDITIONS:
        raise value.error(f"'{text}' is not a valid automation condition", hint)
    try:
        given = list(ast.literal_eval(f"({found[2]},)")) if (found[2] or "").strip() else []
    except (ValueError, SyntaxError):
        raise value.error(f"'{found[2]}' is not a list of texts", hint) from None
    least, most = (1, 2) if name == "on_cron" else (0, 0)
    if not all(isinstance(one, str) for one in given) or not least <= len(given) <= most:
        takes = "a cron, and optionally a time zone" if name == "on_cron" else "no arguments"
        raise value.error(f"{name} takes {takes}", hint)
    if name != "on_cron":
        return Automation(name)
    cron, *zones = given
    try:
        return Automation(name, normalise_cron(cron), *map(zone_name, zones))
    except ValueError as error:
        raise value.error(f"{error}", "write '@daily' or five fields such as '0 5 * * *'") from None
    except LookupError as error:
        raise value.error(f"'{zones[0]}' is not a time zone", error.args[0]) from None
