"""External models: tables that others write, declared in `external_models.yaml`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from vde_dagster.base.texts import suggest
from vde_dagster.errors import ProjectError, SourceLocation, UsageError
from vde_dagster.project.kinds import External
from vde_dagster.project.macros.expansion import MacroScope
from vde_dagster.project.model import Column, LoadedFile, LoadedModel, Model
from vde_dagster.project.properties.header_macros import expanded_text
from vde_dagster.project.properties.model_properties import canonical_type
from vde_dagster.project.reading.audits import AuditCall, AuditContext, read_audits
from vde_dagster.project.yaml_text import YamlDocument, load_yaml

_KEYS = (
    "name",
    "columns",
    "description",
    "column_descriptions",
    "owner",
    "tags",
    "start",
    "audits",
)
_IGNORED = ("gateway", "dialect", "grains")


def load_external_models(path: Path, text: str, context: AuditContext) -> LoadedFile:
    """Read SQLMesh's `external_models.yaml`: a list of `name`, `columns`, `audits` and more.

    Args:
        path: The file, relative to the project's root.
        text: Its text.
        context: The project's audits, what names mean, macros and variables that values may have,
            and the SQLGlot dialect of types and of audits' arguments.

    Raises:
        ProjectError: It is not such a list; points at the entry.
    """
    document = load_yaml(path, text)
    if document.value is None:
        return LoadedFile(path)
    if not isinstance(document.value, list):
        raise document.error((), "external models are a list", "write - name: schema.table")
    models = []
    names, scope = context.names, context.scope
    for index, entry in _of_gateway(document.value, scope.settings.get("gateway")):
        location = document.location((index,))

        def fail(
            message: str, hint: str | None = None, location: SourceLocation = location
        ) -> ProjectError:
            return ProjectError(message, hint=hint, location=location)

        if not isinstance(entry, dict) or "name" not in entry:
            raise fail("an external model has no name", "write - name: schema.table")
        for key in entry:
            if key not in _KEYS and key not in _IGNORED:
                raise fail(f"unknown key '{key}' of an external model", suggest(str(key), _KEYS))
        try:
            entry = _expanded(entry, scope, location)
            name = names.read(str(entry["name"]))
        except UsageError as error:
            raise fail(error.message, error.hint) from None
        columns = _columns(entry, scope.dialect, fail)
        calls = _audit_calls(entry, partial(_place, document, index))
        own = dataclasses.replace(context, scope=dataclasses.replace(scope, model=name))
        audits, reads = read_audits(calls, own)
        model = Model(
            name=name,
            kind=External(),
            location=location,
            source=text,
            columns=columns,
            audits=audits,
            description=_text(entry.get("description")),
            owner=_text(entry.get("owner")),
            tags=tuple(str(tag) for tag in entry.get("tags") or ()),
            column_descriptions={c.name: c.description for c in columns if c.description},
        )
        models.append(LoadedModel(model, reads))
    return LoadedFile(path, tuple(models))


def _of_gateway(entries: list[Any], gateway: Any) -> list[tuple[int, Any]]:
    """Leave out what is said of other gateways, and what the own one says otherwise."""

    def told(entry: Any) -> str | None:
        given = entry.get("gateway") if isinstance(entry, dict) else None
        return None if given is None or gateway is None else str(given).lower()

    own = str(gateway).lower()
    replaced = {str(entry.get("name")).lower() for entry in entries if told(entry) == own}
    return [
        (index, entry)
        for index, entry in enumerate(entries)
        if told(entry) == own or (told(entry) is None and _name_of(entry) not in replaced)
    ]


def _name_of(entry: Any) -> str | None:
    return str(entry.get("name")).lower() if isinstance(entry, dict) else None


def _expanded(value: Any, scope: MacroScope, location: SourceLocation, key: str = "") -> Any:
    """Replace variables and macros in what an entry says; in its name each has to be known."""
    if isinstance(value, str):
        return expanded_text(value, scope, location, strict=key == "name")
    if isinstance(value, dict):
        return {
            name: own if name == "audits" else _expanded(own, scope, location, str(name))
            for name, own in value.items()  # Audits expand their arguments themselves.
        }
    if isinstance(value, list):
        return [_expanded(own, scope, location, key) for own in value]
    return value


def _audit_calls(
    entry: dict[str, Any], place: Callable[..., SourceLocation]
) -> Iterator[AuditCall]:
    """Read `audits`: a list of names, or of a `name` with arguments, whose texts are SQL."""
    given = entry.get("audits") or []
    if not isinstance(given, list):
        raise _no_audit(place())
    for number, item in enumerate(given):
        one = {"name": item} if isinstance(item, str) else item
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise _no_audit(place(number))
        arguments = {
            str(key).lower(): _argument(value) for key, value in one.items() if key != "name"
        }
        yield AuditCall(one["name"], arguments, place(number))


def _place(document: YamlDocument, index: int, *path: int) -> SourceLocation:
    return document.location((index, "audits", *path))


def _no_audit(location: SourceLocation) -> ProjectError:
    return ProjectError(
        "'audits' is a list of audits with their arguments",
        hint='write - {name: not_null, columns: "[id]"}',
        location=location,
    )


def _argument(value: Any) -> str:
    if isinstance(value, list):
        return f"({', '.join(map(_argument, value))})"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _columns(entry: dict[str, Any], dialect: str, fail: Any) -> tuple[Column, ...]:
    given = entry.get("columns") or {}
    if not isinstance(given, dict):
        raise fail("'columns' is a table of column: type")
    texts = entry.get("column_descriptions") or {}
    return tuple(
        Column(
            str(name),
            canonical_type(str(type_), dialect, fail) if type_ else None,
            _text(texts.get(name)),
        )
        for name, type_ in given.items()
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
