"""Units of dbt's manifest: a node with everything that becomes one model or exposure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from vde_dagster.api.values import digest
from vde_dagster.plugins.dbt.manifest import (
    IGNORED_PARTS,
    MODEL_TYPES,
    Exposure,
    Manifest,
    Node,
    UnitTest,
    tested_node,
)


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
            tests.setdefault(tested_node(test, manifest), []).append(test)
    unit_tests: dict[str, list[UnitTest]] = {}
    for case in manifest.unit_tests.values():
        unit_tests.setdefault(next(iter(case.depends_on.nodes), ""), []).append(case)
    owners = {group.name: owner_name(group.owner) for group in manifest.groups.values()}
    read = (n for n in nodes.values() if n.resource_type in MODEL_TYPES)
    units: dict[str, Unit | Reader] = {}
    for node in (*read, *manifest.sources.values()):
        own, given = tests.get(node.unique_id, []), unit_tests.get(node.unique_id, [])
        parents = [one for id_ in node.depends_on.nodes if (one := manifest.find(id_))]
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
        node = manifest.find(one)
        if node is not None:
            found[node.relation] = None
        elif one not in seen:
            seen.add(one)
            for part in IGNORED_PARTS:
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
            and n.resource_type in MODEL_TYPES
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
