"""Translation of the expressions in dbt's semantic manifest from the adapter's dialect to Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vde_dagster.api.errors import ProjectError, SourceLocation
from vde_dagster.api.values import Settings

MANIFEST = "manifest.json"
"""dbt's own manifest, next to the semantic manifest."""
_ADAPTER = re.compile(r'"adapter_type"\s*:\s*"(\w+)"')
_DIALECTS = {"sqlserver": "tsql", "databricks": "spark"}
"""SQLGlot's dialect by dbt's adapter, where the names differ."""
_JINJA = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_PLACEHOLDER = re.compile(r"\bvde_jinja_(\d+)\b")
_KEYS = ("expr", "where_sql_template")


def translate_manifest(path: Path, text: str, manifest: str, settings: Settings) -> str:
    """Translate the expressions in dbt's semantic manifest to Spark SQL.

    Args:
        text: The semantic manifest, as JSON.
        manifest: The text of dbt's `manifest.json`, which names the adapter.

    Raises:
        ProjectError: Expressions cannot be translated, or use functions that are not verified.
    """
    dialect = adapter_dialect(manifest)
    if dialect == "spark":
        return text
    try:
        whole = json.loads(text)
    except ValueError:
        return text  # Its reader reports the mistake.
    mistakes = []
    for name, holder, key in _find_expressions(whole, ""):
        try:
            holder[key] = _translate(holder[key], dialect, settings)
        except ValueError as problem:
            mistakes.append(_translation_error(path, name, holder[key], problem))
    if mistakes:
        raise ProjectError.combine(mistakes)
    return json.dumps(whole)


def adapter_dialect(manifest: str) -> str:
    """Return the SQLGlot dialect of the adapter in the text of dbt's `manifest.json`."""
    found = _ADAPTER.search(manifest)
    return _DIALECTS.get(found[1], found[1]) if found is not None else "spark"


AGGREGATIONS = ("avg", "median", "percentile_cont")
"""Functions in a metric's SQL that MetricFlow itself writes for Spark."""


def _find_expressions(value: Any, name: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield (element's name, its JSON object, key of the expression) for each expression."""
    if isinstance(value, list):
        for one in value:
            yield from _find_expressions(one, name)
    elif isinstance(value, dict):
        name = str(value.get("name") or name)
        for key, one in value.items():
            if key in _KEYS and isinstance(one, str):
                yield name, value, key
            else:
                yield from _find_expressions(one, name)


def _translate(text: str, dialect: str, settings: Settings) -> str:
    """Translate an expression, and keep any Jinja `{{ … }}` in the expression unchanged."""
    jinja = _JINJA.findall(text)
    numbers = iter(range(len(jinja)))
    plain = _JINJA.sub(lambda _: f"vde_jinja_{next(numbers)}", text)
    made = settings.in_spark(plain, dialect)
    return _PLACEHOLDER.sub(lambda found: jinja[int(found[1])], made)


def _translation_error(path: Path, name: str, text: str, problem: ValueError) -> ProjectError:
    hint = "write it in SQL that Spark also accepts"
    function = getattr(problem.__cause__, "function", None)
    if function is not None:
        hint += f'; or trust the function: dialect_trust = ["{function}"] under [tool.vde]'
    message = f"the expression '{text}' of '{name}': {problem}"
    return ProjectError(message, hint=hint, location=SourceLocation(path))
