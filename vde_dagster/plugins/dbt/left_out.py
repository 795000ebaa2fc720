"""Nodes that are left out of a project: nodes that dbt cannot compile here, and their readers.

An introspective node queries the warehouse while dbt compiles it. If the query fails, the node has
no compiled code: models that read its table cannot be filled, and its tests have no rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from vde_dagster.api.values import count
from vde_dagster.plugins.dbt.manifest import Manifest, Node, UnitTest


@dataclass(frozen=True, slots=True)
class LeftOutNodes:
    """Nodes of a manifest that do not become models.

    Args:
        unique_ids: Ids of the left-out nodes, and of the unit tests of left-out models.
        relations: Names of the nodes' tables, in parts.
    """

    unique_ids: frozenset[str]
    relations: list[tuple[str, ...]]
    message: str

    @classmethod
    def from_manifest(cls, manifest: Manifest, introspective: Mapping[str, str]) -> LeftOutNodes:
        """Leave out introspective nodes, and the nodes that read them.

        Args:
            introspective: The call that has no answer, and the reason if known, by unique id.
        """
        gone = _with_readers(manifest, introspective)
        every: dict[str, Node | UnitTest] = {**manifest.nodes, **manifest.unit_tests}
        found = [(one, node) for one, node in every.items() if one in gone]
        models = [(one, n) for one, n in found if isinstance(n, Node) and _has_table(n)]
        tests = [(one, n) for one, n in found if not (isinstance(n, Node) and _has_table(n))]
        calls = [f"{n.name} ({introspective[one]})" for one, n in models if one in introspective]
        readers = (n.name for one, n in models if one not in introspective)
        own_tests = (n.name for one, n in tests if one in introspective)
        other_tests = (n.name for one, n in tests if one not in introspective)
        parts = [
            _list_names("introspective models", calls),
            _list_names("their readers", readers),
            _list_names("introspective tests", own_tests),
            _list_names("tests of these models", other_tests),
        ]
        numbers = [count(len(n), noun) for n, noun in ((models, "model"), (tests, "test")) if n]
        is_one = len(models) + len(tests) == 1
        message = (
            f"{' and '.join(numbers)} of the dbt project {'is' if is_one else 'are'} left out, as "
            f"dbt cannot compile {'it' if is_one else 'them'} without results from the warehouse: "
            f"{'; '.join(filter(None, parts))}"
        )
        return cls(frozenset(gone), [n.relation for _, n in models if isinstance(n, Node)], message)


def remove_left_out(manifest: Manifest, left_out: LeftOutNodes | None) -> Manifest:
    if left_out is None:
        return manifest
    gone = left_out.unique_ids
    return msgspec.structs.replace(
        manifest,
        nodes={one: node for one, node in manifest.nodes.items() if one not in gone},
        unit_tests={one: test for one, test in manifest.unit_tests.items() if one not in gone},
    )


def _with_readers(manifest: Manifest, unique_ids: Iterable[str]) -> set[str]:
    readers: dict[str, list[str]] = {}
    every: dict[str, Node | UnitTest] = {**manifest.nodes, **manifest.unit_tests}
    for unique_id, node in every.items():
        for parent in node.depends_on.nodes:
            readers.setdefault(parent, []).append(unique_id)
    found, waiting = set[str](), list(unique_ids)
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += readers.get(one, ())
    return found


def _has_table(node: Node) -> bool:
    return node.resource_type in ("model", "snapshot")


def _list_names(what: str, names: Iterable[str]) -> str:
    listed = ", ".join(sorted(names))
    return f"{what}: {listed}" if listed else ""
