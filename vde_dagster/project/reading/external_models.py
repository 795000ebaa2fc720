"""External models: tables that other programs write, declared in `external_models.yaml`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from vde_dagster.base.texts import suggest
from vde_dagster.errors import SourceLocation, UsageError
from vde_dagster.project.kinds import External
from vde_dagster.project.macros.scope import MacroScope
from vde_dagster.project.model import Column, LoadedFile, LoadedModel, Model
from vde_dagster.project.properties.header_macros import expanded_text
from vde_dagster.project.properties.model_properties import canonical_type
from vde_dagster.project.reading.audits import AuditCall, AuditContext, read_audits
from vde_dagster.project.yaml_text import KeyPath, YamlDocument, load_yaml

KEYS = (
    *("name", "columns", "description", "column_descriptions"),
    *("owner", "tags", "start", "audits"),
)
_IGNORED = ("gateway", "dialect", "grains")


def load_external_models(path: Path, text: str, context: AuditContext) -> LoadedFile:
    """Read a file `external_models.yaml`, a list of tables with `name`, `columns` and `audits`."""
    document = load_yaml(path, text)
    if document.value is None:
        return LoadedFile(path)
    if not isinstance(document.value, list):
        raise document.error((), "external models must be a list", "write - name: schema.table")
    models = []
    names, scope = context.names, context.scope
    for index, entry in _entries_for_gateway(document.value, scope.settings.get("gateway")):
        location, fail = document.location((index,)), partial(document.error, (index,))
        if not isinstance(entry, dict) or "name" not in entry:
            raise fail("an external model has no name", "write - name: schema.table")
        for key in entry:
            if key not in KEYS and key not in _IGNORED:
                raise fail(f"unknown key '{key}' of an external model", suggest(str(key), KEYS))
        try:
            entry = _expand(entry, scope, location)
            name = names.read(str(entry["name"]))
        except UsageError as error:
            raise fail(error.message, error.hint) from None
        columns = _read_columns(entry, scope.dialect, fail)
        calls = _audit_calls(entry, document, (index, "audits"))
        own = dataclasses.replace(context, scope=dataclasses.replace(scope, model=name))
        audits, reads = read_audits(calls, own)
        model = Model(
            name=name,
            kind=External(),
            location=location,
            source=text,
            columns=columns,
            audits=audits,
            description=_text_or_none(entry.get("description")),
            owner=_text_or_none(entry.get("owner")),
            tags=tuple(str(tag) for tag in entry.get("tags") or ()),
            column_descriptions={c.name: c.description for c in columns if c.description},
        )
        models.append(LoadedModel(model, reads))
    return LoadedFile(path, tuple(models))


def _entries_for_gateway(entries: list[Any], gateway: Any) -> list[tuple[int, Any]]:
    def text(entry: Any, key: str) -> str | None:
        given = entry.get(key) if isinstance(entry, dict) else None
        return None if given is None else str(given).lower()

    if gateway is None:
        return list(enumerate(entries))
    own = str(gateway).lower()
    replaced = {text(entry, "name") for entry in entries if text(entry, "gateway") == own}
    return [
        (index, entry)
        for index, entry in enumerate(entries)
        if text(entry, "gateway") == own
        or (text(entry, "gateway") is None and text(entry, "name") not in replaced)
    ]


def _expand(value: Any, scope: MacroScope, location: SourceLocation, key: str = "") -> Any:
    if isinstance(value, str):
        return expanded_text(value, scope, location, strict=key == "name")
    if isinstance(value, dict):
        return {
            name: own if name == "audits" else _expand(own, scope, location, str(name))
            for name, own in value.items()  # Audits expand their arguments later.
        }
    if isinstance(value, list):
        return [_expand(own, scope, location, key) for own in value]
    return value


def _audit_calls(
    entry: dict[str, Any], document: YamlDocument, keys: KeyPath
) -> Iterator[AuditCall]:
    """Read `audits`: a list of names, or of tables with a `name` and SQL arguments."""
    message = "'audits' must be a list of audits with their arguments"
    hint = 'write - {name: not_null, columns: "[id]"}'
    given = entry.get("audits") or []
    if not isinstance(given, list):
        raise document.error(keys, message, hint)
    for number, item in enumerate(given):
        one = {"name": item} if isinstance(item, str) else item
        place = (*keys, number)
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise document.error(place, message, hint)
        arguments = {
            str(key).lower(): _argument_text(value) for key, value in one.items() if key != "name"
        }
        yield AuditCall(one["name"], arguments, document.location(place))


def _argument_text(value: Any) -> str:
    if isinstance(value, list):
        return f"({', '.join(map(_argument_text, value))})"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _read_columns(entry: dict[str, Any], dialect: str, fail: Any) -> tuple[Column, ...]:
    given = entry.get("columns") or {}
    if not isinstance(given, dict):
        raise fail("'columns' must be a table of column: type")
    texts = entry.get("column_descriptions") or {}
    return tuple(
        Column(
            str(name),
            canonical_type(str(type_), dialect, fail) if type_ else None,
            _text_or_none(texts.get(name)),
        )
        for name, type_ in given.items()
    )


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)
