"""Declaration of external tables, with their columns in the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.project.files import write_text

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles


FILE = "external_models.yaml"

Columns = dict[str, str]
"""Spark SQL types by column."""


@dataclass(frozen=True, slots=True)
class Declared:
    """Result of declaring external tables in `external_models.yaml`.

    Args:
        added: Newly declared tables, with their columns.
        absent: Tables that are read but are not in the project's catalog.
    """

    file: str
    added: Mapping[ModelName, Columns]
    absent: tuple[ModelName, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "added": [{"name": str(name), "columns": own} for name, own in self.added.items()],
            "absent": [str(name) for name in self.absent],
        }


def declare_tables(handles: Handles, *, dry_run: bool = False) -> Declared:
    """Add undeclared tables that models read, with their columns, to `external_models.yaml`.

    Raises ProjectError if the file is not a list that can be extended.
    """
    # Existing entries stay. Tables of other catalogs count as absent, because only Spark can look
    # them up.
    added: dict[ModelName, Columns] = {}
    absent: list[ModelName] = []
    for name, model in sorted(handles.project.models.items()):
        if not model.kind.is_external or model.source:
            continue
        ref = TableRef(name.namespace, name.name)
        found = None if model.table else handles.lakehouse.relation_columns(ref)
        if found is None:
            absent.append(name)
            continue
        added[name] = {column: type_ for column, type_, _ in found}
    file = "external_models.yml"
    file = file if (handles.root / file).is_file() else FILE
    if added and not dry_run:
        _append_entries(handles.root, file, added)
    return Declared(file, added, tuple(absent))


def _append_entries(root: Path, file: str, added: Mapping[ModelName, Columns]) -> None:
    import yaml

    path = root / file
    before = path.read_text("utf-8") if path.is_file() else ""
    known = yaml.safe_load(before) or []
    entries = Declared(file, added, ()).to_json()["added"]
    text = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True)
    gap = "" if not before or before.endswith("\n") else "\n"
    after = f"{before}{gap}{text}"
    try:
        whole = yaml.safe_load(after)
    except yaml.YAMLError:
        whole = None
    if not isinstance(known, list) or whole != [*known, *entries]:
        raise ProjectError(
            "external models cannot be added to this file",
            hint="write it as a list with each entry on separate lines: - name: schema.table",
            location=SourceLocation(Path(file), 1),
        )
    write_text(path, after)
