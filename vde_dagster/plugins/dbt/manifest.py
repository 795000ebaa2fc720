"""dbt's manifest (version 12): its supported nodes, each with its tests.

Source: https://schemas.getdbt.com/dbt/manifest/v12.json
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from vde_dagster.api.errors import ProjectError, SourceLocation
from vde_dagster.api.values import count

VERSION = 12
_COMPILE_HINT = "run `dbt compile`"
_NEWER = (
    "only dbt Core 1.8 to 1.11 is supported, not Fusion and dbt 2: install "
    '"dbt-core<1.12" with your adapter in a separate Python environment, and name its dbt as '
    "executable under [tool.vde.dbt], or run its `dbt compile`"
)
MODEL_TYPES = ("model", "seed", "snapshot")
IGNORED_PARTS = ("metrics", "semantic_models", "saved_queries")
"""Parts that do not become models; `plugins.metrics` reads them from `semantic_manifest.json`."""
_WORDS = {"analysis": "analyses", "sql_operation": "inline queries"}
"""Words for unsupported types of nodes, for warnings."""


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column that a file of properties declares."""

    name: str
    description: str | None = ""
    data_type: str | None = None
    constraints: list[dict[str, Any]] = []


class Contract(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model's contract. If it is enforced, the model has exactly the declared columns."""

    enforced: bool = False


class Checksum(msgspec.Struct, frozen=True, omit_defaults=True):
    """A hash of a file's text without surrounding whitespace."""

    name: str = ""
    checksum: str = ""


class ExtraCte(msgspec.Struct, frozen=True, omit_defaults=True):
    """An ephemeral model whose query dbt inserted into the compiled code."""

    id: str


class TestMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """A generic test's name, such as `unique`, and its arguments."""

    name: str
    kwargs: dict[str, Any] = {}
    namespace: str | None = None


class DependsOn(msgspec.Struct, frozen=True, omit_defaults=True):
    """Unique ids of the macros and nodes that a node uses."""

    macros: list[str] = []
    nodes: list[str] = []


class Node(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model, seed, snapshot, source or test; `config` is merged by dbt and has dbt's names."""

    unique_id: str
    resource_type: str
    package_name: str
    original_file_path: str
    name: str
    database: str | None = None
    schema: str | None = None
    alias: str | None = None
    identifier: str | None = None
    relation_name: str | None = None
    language: str = "sql"
    raw_code: str = ""
    compiled_code: str | None = None
    compiled_path: str | None = None
    config: dict[str, Any] = {}
    description: str | None = ""
    columns: dict[str, Column] = {}
    tags: list[str] = []
    group: str | None = None
    meta: dict[str, Any] = {}
    contract: Contract = Contract()
    checksum: Checksum = Checksum()
    extra_ctes: list[ExtraCte] = []
    constraints: list[dict[str, Any]] = []
    access: str | None = None
    version: str | int | float | None = None
    latest_version: str | int | float | None = None
    deprecation_date: str | None = None
    depends_on: DependsOn = DependsOn()
    column_name: str | None = None
    attached_node: str | None = None
    test_metadata: TestMetadata | None = None
    freshness: dict[str, Any] | None = None
    loaded_at_field: str | None = None
    source_name: str | None = None
    patch_path: str | None = None
    index: int | None = None

    @property
    def materialized(self) -> str:
        """The materialization, or the resource type of a node without a materialization."""
        return str(self.config.get("materialized") or self.resource_type)

    @property
    def relation(self) -> tuple[str, ...]:
        """Parts of the node's table name, beginning with catalog and schema if dbt sets them."""
        name = self.identifier or self.alias or self.name
        return (*(part for part in (self.database, self.schema) if part), name)


class Metadata(msgspec.Struct, frozen=True, omit_defaults=True):
    dbt_schema_version: str = ""
    dbt_version: str = ""
    adapter_type: str = ""
    project_name: str | None = None


class Exposure(msgspec.Struct, frozen=True, omit_defaults=True):
    """An exposure: a dashboard or another consumer of models."""

    unique_id: str
    name: str
    package_name: str
    original_file_path: str
    label: str | None = None
    description: str | None = None
    url: str | None = None
    owner: dict[str, Any] = {}
    depends_on: DependsOn = DependsOn()


class Rows(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rows in a unit test: values that dbt parsed, or a query.

    Args:
        input: `ref('a')`, `source('a', 'b')` or `this`; empty for the expected rows.
        format: `dict`, `csv` or `sql`.
    """

    input: str = ""
    rows: list[dict[str, Any]] | str | None = None
    format: str = "dict"


class UnitTest(msgspec.Struct, frozen=True, omit_defaults=True):
    unique_id: str
    name: str
    package_name: str
    original_file_path: str
    given: list[Rows] = []
    expect: Rows = Rows()
    description: str | None = None
    overrides: dict[str, Any] | None = None
    depends_on: DependsOn = DependsOn()


class _Dependent(msgspec.Struct, frozen=True, omit_defaults=True):
    depends_on: DependsOn = DependsOn()


class Macro(msgspec.Struct, frozen=True, omit_defaults=True):
    package_name: str = ""
    original_file_path: str = ""
    macro_sql: str = ""


class _Named(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str = ""
    original_file_path: str = ""


class _Group(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    owner: dict[str, Any] = {}


class _Head(msgspec.Struct, frozen=True, omit_defaults=True):
    metadata: Metadata


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The parts of dbt's manifest that are read, with unique ids as keys."""

    metadata: Metadata
    nodes: dict[str, Node]
    sources: dict[str, Node] = {}
    groups: dict[str, _Group] = {}
    disabled: dict[str, list[_Named]] | None = None
    metrics: dict[str, _Dependent] = {}
    semantic_models: dict[str, _Dependent] = {}
    saved_queries: dict[str, _Dependent] = {}
    unit_tests: dict[str, UnitTest] = {}
    exposures: dict[str, Exposure] = {}
    functions: dict[str, _Named] = {}
    macros: dict[str, Macro] = {}

    def find(self, unique_id: str) -> Node | None:
        return self.nodes.get(unique_id) or self.sources.get(unique_id)


def read_manifest(
    path: Path, content: bytes, folder: Path, without_code: Container[str] = ()
) -> Manifest:
    """Parse a manifest, and check its version and its compiled code.

    Args:
        folder: The dbt project's folder, relative to the root.
        without_code: Unique ids of nodes that may lack compiled code.

    Raises:
        ProjectError: The manifest is invalid, has a version other than `VERSION`, has no compiled
            code, or has functions, which are not supported.
    """
    try:
        metadata = msgspec.json.decode(content, type=_Head).metadata
        version = re.search(r"/v(\d+)\.json$", metadata.dbt_schema_version)
        if version is None or int(version[1]) != VERSION:
            found = f"version {version[1]}" if version else "no known version"
            newer = version is not None and int(version[1]) > VERSION
            raise ProjectError(
                f"the manifest has {found}, made by dbt {metadata.dbt_version or '?'}; "
                f"only version {VERSION} is supported",
                hint=_NEWER if newer else f"{_COMPILE_HINT} with dbt 1.8 to 1.11",
                location=_location_at(path, content, content.find(b'"dbt_schema_version"')),
            )
        manifest = msgspec.json.decode(content, type=Manifest)
    except msgspec.ValidationError as error:
        raise _invalid_manifest_error(path, content, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        place = re.search(r"\(byte (\d+)\)", str(error))
        raise ProjectError(
            f"the manifest is broken: {error}",
            hint=_COMPILE_HINT,
            location=_location_at(path, content, int(place[1]) if place else -1),
        ) from None
    manifest = _without_disabled(manifest)
    _require_compiled(path, manifest, without_code)
    for function in manifest.functions.values():
        raise ProjectError(
            f"'{function.name}' is a function, which dbt creates in the warehouse",
            hint="write its expression in the models, or as a macro",
            location=SourceLocation(folder / function.original_file_path, 1),
        )
    return manifest


def decode_manifest(content: bytes) -> Manifest:
    """Parse a manifest that the installed dbt wrote, without checking its version."""
    return _without_disabled(msgspec.json.decode(content, type=Manifest))


def _without_disabled(manifest: Manifest) -> Manifest:
    # These tests have no compiled code.
    enabled = {one: n for one, n in manifest.nodes.items() if n.config.get("enabled", True)}
    return msgspec.structs.replace(manifest, nodes=enabled)


def _location_at(path: Path, content: bytes, offset: int) -> SourceLocation:
    return SourceLocation(path, content.count(b"\n", 0, offset) + 1 if offset >= 0 else None)


def _invalid_manifest_error(
    path: Path, content: bytes, error: msgspec.ValidationError
) -> ProjectError:
    parts: dict[str, Any] = {}
    with suppress(msgspec.ValidationError):
        parts = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    for part in ("nodes", "sources"):
        nodes: dict[str, msgspec.Raw] = {}
        with suppress(msgspec.ValidationError):
            nodes = msgspec.json.decode(parts.get(part, b"{}"), type=dict[str, msgspec.Raw])
        for unique_id, node in nodes.items():
            try:
                msgspec.json.decode(node, type=Node)
            except msgspec.ValidationError as own:
                return ProjectError(
                    f"the node {unique_id} is invalid: {own}",
                    hint=_COMPILE_HINT,
                    location=_location_at(path, content, content.find(bytes(node))),
                )
    message = f"this is not a manifest of dbt: {error}"
    return ProjectError(message, hint=_COMPILE_HINT, location=SourceLocation(path))


def read_compiled_nodes(content: bytes) -> dict[str, Node]:
    """Parse a manifest and return its compiled nodes, by unique id."""
    manifest = msgspec.json.decode(content, type=Manifest)
    return {id_: node for id_, node in manifest.nodes.items() if node.compiled_code is not None}


def _require_compiled(path: Path, manifest: Manifest, without_code: Container[str]) -> None:
    kinds = ("model", "snapshot", "test")
    coded = [
        node
        for unique_id, node in manifest.nodes.items()
        if node.resource_type in kinds and node.language == "sql" and unique_id not in without_code
    ]
    lacking = [node.name for node in coded if node.compiled_code is None]
    if lacking:
        named = "" if len(lacking) == len(coded) else f" of {count(len(lacking), 'node')}"
        first = f", such as '{lacking[0]}'" if named else ""
        raise ProjectError(
            f"the manifest has no compiled code{named}{first}",
            hint=_COMPILE_HINT,
            location=SourceLocation(path),
        )


def tested_node(test: Node, manifest: Manifest) -> str:
    seen: list[str] = []
    # The attached node comes first, and then the nodes that the test reads, in reverse order.
    waiting = [*([test.attached_node] if test.attached_node else []), *test.depends_on.nodes[::-1]]
    while waiting:
        one = waiting.pop(0)
        node = manifest.find(one)
        if node is None or one in seen:
            continue
        # An ephemeral model has no table, so a node that the model reads takes its place.
        if node.materialized != "ephemeral":
            return one
        seen.append(one)
        waiting += node.depends_on.nodes
    return ""


def ignored_types(manifest: Manifest) -> Iterator[str]:
    """Yield the type of each node that is ignored, such as `saved queries`."""
    for part in IGNORED_PARTS:
        noun = part.replace("_", " ")
        yield from (noun for _ in getattr(manifest, part))
    placed = {
        tested_node(n, manifest) for n in manifest.nodes.values() if n.resource_type == "test"
    }
    yield from ("tests that read no model" for one in placed if not one)
    known = (*MODEL_TYPES, "test", "operation")
    others = (n.resource_type for n in manifest.nodes.values() if n.resource_type not in known)
    yield from (_WORDS.get(one, one) for one in others)


def main_database(manifest: Manifest) -> str:
    """Return the database of most of dbt's tables; empty if nodes name no database."""
    databases = [
        n.database or "" for n in manifest.nodes.values() if n.resource_type in MODEL_TYPES
    ]
    return Counter(databases).most_common(1)[0][0] if databases else ""
