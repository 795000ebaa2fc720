"""External models: tables that others write, declared in `external_models.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vde_dagster.base.suggestions import suggest
from vde_dagster.errors import ProjectError, SourceLocation, UsageError
from vde_dagster.project.kinds import External
from vde_dagster.project.loaded import LoadedFile, LoadedModel
from vde_dagster.project.macros.expansion import MacroScope
from vde_dagster.project.model import Column, Model
from vde_dagster.project.reading.header_macros import expanded_text
from vde_dagster.project.reading.model_properties import canonical_type
from vde_dagster.project.reading.yaml_lines import load_yaml
from vde_dagster.project.table_names import TableNames

_KEYS = ("name", "columns", "description", "column_descriptions", "owner", "tags", "start")
_IGNORED = ("gateway", "dialect", "audits", "grains")


def load_external_models(path: Path, text: str, names: TableNames, scope: MacroScope) -> LoadedFile:
    """Read SQLMesh's `external_models.yaml`: a list of `name`, `columns`, `description`.

    Args:
        path: The file, relative to the project's root.
        text: Its text.
        names: What names mean.
        scope: Macros and variables that values may have, and the types' SQLGlot dialect.

    Raises:
        ProjectError: It is not such a list; points at the entry.
    """
    document = load_yaml(path, text)
    if document.value is None:
        return LoadedFile(path)
    if not isinstance(document.value, list):
        raise document.error((), "external models are a list", "write - name: schema.table")
    models = []
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
        model = Model(
            name=name,
            kind=External(),
            location=location,
            source=text,
            columns=columns,
            description=_text(entry.get("description")),
            owner=_text(entry.get("owner")),
            tags=tuple(str(tag) for tag in entry.get("tags") or ()),
            column_descriptions={c.name: c.description for c in columns if c.description},
        )
        models.append(LoadedModel(model))
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
        return {name: _expanded(own, scope, location, str(name)) for name, own in value.items()}
    if isinstance(value, list):
        return [_expanded(own, scope, location, key) for own in value]
    return value


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
