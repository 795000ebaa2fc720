"""Definitions of syncs, read from `syncs.yaml`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from vde_dagster.api.errors import SourceLocation, UsageError, placed
from vde_dagster.api.models import Exposure
from vde_dagster.api.plans import environment_name
from vde_dagster.api.sinks import Sink
from vde_dagster.api.sources import LoadedFile, TableNames, YamlDocument, load_yaml
from vde_dagster.api.values import ModelName, Seam, expand_secrets

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace

SINKS: Seam[type[Any]] = Seam("sinks")
FILES = ("syncs.yaml", "syncs.yml")

Mode = Literal["upsert", "mirror", "append"]


class _SyncEntry(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_]{1,64}$")]
    source: str
    sink: str
    to: dict[str, dict[str, Any]]
    key: list[str] = []
    mode: Mode = "upsert"
    batch: Annotated[int, msgspec.Meta(ge=1)] = 500


@dataclass(frozen=True, slots=True)
class SyncDefinition:
    """A sync copies the rows of a model's view to an outside system.

    Args:
        key: The columns that identify a row; none for `append`.
        mode: `mirror` makes the outside system equal to the view, `upsert` deletes nothing, and
            `append` only adds rows.
        batch: Maximum number of rows per batch.
        to: The sink's options by environment; nothing is sent from other environments.
    """

    name: str
    source: ModelName
    sink: str
    to: Mapping[str, Mapping[str, Any]]
    key: tuple[str, ...]
    mode: Mode
    batch: int
    place: SourceLocation
    key_place: SourceLocation

    def sink_for(self, environment: str) -> Sink:
        """Return the sink of an environment, with environment variables replaced in its options.

        Raises:
            UsageError: The definition has no address for the environment.
        """
        if environment not in self.to:
            raise UsageError(
                f"the sync '{self.name}' sends nothing from '{environment}'",
                hint=f"{self.place}: add it under `to`, which has {', '.join(self.to)}",
            )
        options = expand_secrets(self.to[environment])
        sink: Sink = msgspec.convert(options, SINKS.require(self.sink))
        return sink


def load_file(path: Path, text: str, names: TableNames) -> LoadedFile:
    """Read `syncs.yaml`, and report each sync as a consumer that reads its model's columns.

    Raises:
        ProjectError: The file has a mistake.
    """
    found = list(_parse_file(path, text, names))
    return LoadedFile(
        path,
        exposures=tuple(
            Exposure(one.name, None, None, tuple(_exposed_columns(one)), one.place, "sync")
            for one in found
        ),
    )


def _exposed_columns(one: SyncDefinition) -> Iterator[tuple[ModelName, str | None, SourceLocation]]:
    yield one.source, None, one.place
    for column in one.key:
        yield one.source, column.lower(), one.key_place


def read_syncs(workspace: Workspace) -> dict[str, SyncDefinition]:
    found: list[SyncDefinition] = []
    for file in FILES:
        if (workspace.root / file).is_file():
            found += _parse_file(Path(file), workspace.text(file), workspace.project.names)
    return {one.name: one for one in found}


def _parse_file(path: Path, text: str, names: TableNames) -> Iterator[SyncDefinition]:
    document = load_yaml(path, text)
    if document.value is not None and not isinstance(document.value, list):
        raise document.error((), "syncs are a list", "write - name: customers")
    known: dict[str, SyncDefinition] = {}
    for number, entry in enumerate(document.value or []):
        one = _parse_definition(document, number, entry, names)
        if one.name in known:
            message = f"the sync '{one.name}' is defined twice"
            raise document.error((number,), message, "give each sync its own name")
        for other in known.values():
            if _share_a_table(one, other):
                raise document.error(
                    (number, "to"),
                    f"the syncs '{other.name}' and '{one.name}' write the same table, and a mirror "
                    "deletes the rows of all others",
                    "use separate tables, or mode: upsert for both",
                )
        known[one.name] = one
        yield one


def _share_a_table(one: SyncDefinition, other: SyncDefinition) -> bool:
    """Return whether a mirror and another sync write the same table."""
    # A receiver of HTTP gets the name of the sync with each batch.
    tables = [options for options in one.to.values() if "table" in options]
    return "mirror" in (one.mode, other.mode) and any(to in tables for to in other.to.values())


def _parse_definition(
    document: YamlDocument, number: int, entry: Any, names: TableNames
) -> SyncDefinition:
    written = document.read((number,), entry, _SyncEntry, "a sync", "`vde help sync`")
    with placed(document.location((number, "source"))):
        source = names.read(written.source)
    if bool(written.key) == (written.mode == "append"):
        raise document.error(
            (number, "key"),
            f"the sync '{written.name}' has {'a' if written.key else 'no'} key, and its mode is "
            f"{written.mode}",
            "remove `key`, because append only adds rows"
            if written.key
            else "write key: [customer_id], the columns that identify a row",
        )
    to: dict[str, Mapping[str, Any]] = {}
    for environment, options in written.to.items():
        keys = (number, "to", environment)
        with placed(document.location(keys)):
            own = environment_name(environment)
            sink = SINKS.require(written.sink)
            document.read(keys, options, sink, f"the sink {written.sink}", "`vde help sync`")
        if own in to:
            message = f"'{written.name}' has the environment '{own}' twice"
            raise document.error(keys, message, "remove one of them")
        if options in to.values():
            raise document.error(
                keys,
                f"two environments send '{written.name}' to the same place",
                "use separate places",
            )
        to[own] = options
    if not to:
        raise document.error(
            (number, "to"), f"the sync '{written.name}' has no destination", "write to: {prod: {…}}"
        )
    place = document.location((number,))
    key, mode, batch = tuple(written.key), written.mode, written.batch
    key_place = document.location((number, "key"))
    return SyncDefinition(
        written.name, source, written.sink, to, key, mode, batch, place, key_place
    )
