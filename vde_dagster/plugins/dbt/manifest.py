"""dbt's manifest (version 12): its supported nodes, each with its tests.

Source: https://schemas.getdbt.com/dbt/manifest/v12.json
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from vde_dagster.api.errors import ProjectError, SourceLocation
from vde_dagster.api.values import count, digest

VERSION = 12
_COMPILE_HINT = "run `dbt compile`"
_NEWER = (
    "only dbt Core 1.8 to 1.11 is supported, not Fusion and dbt 2: install "
    '"dbt-core<1.12" with your adapter in a separate environment, and name its dbt as executable '
    "under [tool.vde.dbt], or run its `dbt compile`"
)
_MODELS = ("model", "seed", "snapshot")
_IGNORED_PARTS = ("metrics", "semantic_models", "saved_queries")
"""Parts of the manifest without models; `plugins.metrics` reads `semantic_manifest.json`."""
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


class _Place(msgspec.Struct, frozen=True, omit_defaults=True):
    package_name: str = ""
    original_file_path: str = ""


class _Head(msgspec.Struct, frozen=True, omit_defaults=True):
    metadata: Metadata


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The parts of dbt's manifest that are read, with unique ids as keys."""

    metadata: Metadata
    nodes: dict[str, Node]
    sources: dict[str, Node] = {}
    groups: dict[str, _Group] = {}
    disabled: dict[str, list[_Place]] | None = None
    metrics: dict[str, _Dependent] = {}
    semantic_models: dict[str, _Dependent] = {}
    saved_queries: dict[str, _Dependent] = {}
    unit_tests: dict[str, UnitTest] = {}
    exposures: dict[str, Exposure] = {}
    functions: dict[str, _Named] = {}
    macros: dict[str, Macro] = {}


class Unit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node with its tests and everything else that its conversion to a model needs.

    Names of tables are in parts, as in `Node.relation`.

    Args:
        tests: Tests of the node's rows.
        ephemeral: Names of ephemeral models, by the names of their CTEs in compiled code.
        owner: Owner of the node's group.
        given: Tables whose rows unit tests provide: `{"ref('a')": ("shop", "a")}`.
        parents: Tables that a Python model reads.
        event_times: For a microbatch: the time column of each relation that it reads.
        later: Compiled code with `is_incremental()` being true; None if it is unknown.
        hooks: Rendered hooks by key and index.
        limited: A microbatch's code, as compiled with `--empty`; None if it is unknown.
    """

    node: Node
    tests: list[Node]
    ephemeral: dict[str, tuple[str, ...]]
    owner: str | None
    unit_tests: list[UnitTest] = []
    given: dict[str, tuple[str, ...]] = {}
    parents: list[tuple[str, ...]] = []
    event_times: dict[str, str] = {}
    later: str | None = None
    hooks: dict[str, str] = {}
    limited: str | None = None


class Reader(msgspec.Struct, frozen=True, omit_defaults=True):
    """An exposure with the names of the tables that it reads, each in parts."""

    exposure: Exposure
    reads: list[tuple[str, ...]]


def read_manifest(
    path: Path, content: bytes, folder: Path, without_code: Container[str] = ()
) -> Manifest:
    """Parse a manifest, and check its version and its compiled code.

    Args:
        folder: The dbt project's folder, relative to the root.
        without_code: Unique ids of nodes that may lack compiled code.

    Raises:
        ProjectError: The manifest is invalid, has another version or no compiled code, or has
            functions, which are not supported.
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


def divide_units(
    manifest: Manifest,
    later: Mapping[str, Node] | None = None,
    hooks: Mapping[str, dict[str, str]] | None = None,
    limited: Mapping[str, Node] | None = None,
) -> dict[str, Unit | Reader]:
    """Divide a manifest into units and exposures, by unique id.

    Args:
        later: Incremental models compiled with `is_incremental()` being true.
        hooks: Each node's `Unit.hooks`, by unique id.
        limited: Microbatch models compiled with `--empty`.
    """
    later, hooks, limited = later or {}, hooks or {}, limited or {}
    nodes = manifest.nodes
    tests: dict[str, list[Node]] = {}
    for test in nodes.values():
        if test.resource_type == "test":
            tests.setdefault(_tested_node(test, manifest), []).append(test)
    unit_tests: dict[str, list[UnitTest]] = {}
    for case in manifest.unit_tests.values():
        unit_tests.setdefault(next(iter(case.depends_on.nodes), ""), []).append(case)
    owners = {group.name: owner_name(group.owner) for group in manifest.groups.values()}
    read = (n for n in nodes.values() if n.resource_type in _MODELS)
    units: dict[str, Unit | Reader] = {}
    for node in (*read, *manifest.sources.values()):
        own, given = tests.get(node.unique_id, []), unit_tests.get(node.unique_id, [])
        parents = [one for id_ in node.depends_on.nodes if (one := _node(manifest, id_))]
        second = later.get(node.unique_id)
        batched = node.config.get("incremental_strategy") == "microbatch"
        units[node.unique_id] = Unit(
            node,
            own,
            _ephemeral((node, *own, *([second] if second else [])), nodes),
            owners.get(node.group or ""),
            given,
            _unit_test_inputs(given, node, manifest),
            [one.relation for one in parents] if node.language == "python" else [],
            _event_times(parents) if batched else {},
            second.compiled_code if second and node.materialized == "incremental" else None,
            hooks.get(node.unique_id, {}),
            limited[node.unique_id].compiled_code if node.unique_id in limited else None,
        )
    for exposure in manifest.exposures.values():
        units[exposure.unique_id] = Reader(exposure, _exposure_reads(exposure, manifest))
    return units


def _node(manifest: Manifest, unique_id: str) -> Node | None:
    return manifest.nodes.get(unique_id) or manifest.sources.get(unique_id)


def _event_times(nodes: Sequence[Node]) -> dict[str, str]:
    """Map each node's relation, or an ephemeral model's CTE, to its `event_time` column."""
    return {
        node.relation_name or f"__dbt__cte__{node.alias or node.name}": str(
            node.config["event_time"]
        )
        for node in nodes
        if node.config.get("event_time")
    }


def _exposure_reads(exposure: Exposure, manifest: Manifest) -> list[tuple[str, ...]]:
    found: dict[tuple[str, ...], None] = {}
    waiting, seen = list(exposure.depends_on.nodes), set[str]()
    while waiting:
        one = waiting.pop(0)
        node = _node(manifest, one)
        if node is not None:
            found[node.relation] = None
        elif one not in seen:
            seen.add(one)
            for part in _IGNORED_PARTS:
                between = getattr(manifest, part).get(one)
                waiting += between.depends_on.nodes if between is not None else ()
    return list(found)


def _unit_test_inputs(
    tests: Sequence[UnitTest], node: Node, manifest: Manifest
) -> dict[str, tuple[str, ...]]:
    """Return `Unit.given`: the table of each `Rows.input` in unit tests."""
    inputs = {rows.input for test in tests for rows in test.given}
    found = {text: _resolve_input(text, node, manifest) for text in inputs}
    return {text: found[text].relation for text in sorted(found) if found[text] is not None}  # type: ignore[union-attr]


_VERSION = re.compile(r"(?:v|version)\s*=\s*['\"]?([\w.]+)")


def _resolve_input(text: str, node: Node, manifest: Manifest) -> Node | None:
    """Return the node that `ref('a')`, `source('a', 'b')` or `this` means in a model."""
    if text.strip() == "this":
        return node
    names = re.findall(r"['\"]([^'\"]*)['\"]", text)
    version = _VERSION.search(text)
    if text.strip().startswith("source"):
        among = [n for n in manifest.sources.values() if [n.source_name, n.name] == names]
    else:
        package, name = (None, *names)[-2:] if names else (None, "")
        among = [
            n
            for n in manifest.nodes.values()
            if n.name == name
            and n.resource_type in _MODELS
            and package in (None, n.package_name)
            and str(n.version) == (version[1] if version else str(n.latest_version))
        ]
    # As in dbt, the model's package comes first.
    return min(among, key=lambda n: n.package_name != node.package_name, default=None)


def unit_hash(unit: Unit | Reader) -> str:
    return digest(msgspec.json.encode(unit).decode())


def owner_name(owner: Mapping[str, Any]) -> str | None:
    return next((str(owner[key]) for key in ("email", "name") if owner.get(key)), None)


def _ephemeral(coded: Sequence[Node], nodes: Mapping[str, Node]) -> dict[str, tuple[str, ...]]:
    found = (nodes[cte.id] for node in coded for cte in node.extra_ctes if cte.id in nodes)
    return {f"__dbt__cte__{node.alias or node.name}": node.relation for node in found}


def _tested_node(test: Node, manifest: Manifest) -> str:
    seen: list[str] = []
    # The attached node comes first, and then the nodes that the test reads, in reverse order.
    waiting = [*([test.attached_node] if test.attached_node else []), *test.depends_on.nodes[::-1]]
    while waiting:
        one = waiting.pop(0)
        node = manifest.nodes.get(one) or manifest.sources.get(one)
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
    for part in _IGNORED_PARTS:
        noun = part.replace("_", " ")
        yield from (noun for _ in getattr(manifest, part))
    placed = {
        _tested_node(n, manifest) for n in manifest.nodes.values() if n.resource_type == "test"
    }
    yield from ("tests that read no model" for one in placed if not one)
    known = (*_MODELS, "test", "operation")
    others = (n.resource_type for n in manifest.nodes.values() if n.resource_type not in known)
    yield from (_WORDS.get(one, one) for one in others)


def main_database(manifest: Manifest) -> str:
    """Return the database of most of dbt's tables; empty if nodes name no database."""
    databases = [n.database or "" for n in manifest.nodes.values() if n.resource_type in _MODELS]
    return Counter(databases).most_common(1)[0][0] if databases else ""
