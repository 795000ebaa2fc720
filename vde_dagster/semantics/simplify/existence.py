"""Joins that only ask whether there is a row: they are EXISTS, or NOT EXISTS.

``a JOIN d ON a.k = d.k`` of which no column of ``d`` is used, whose key is ``k``; ``a LEFT JOIN b
ON a.k = b.k WHERE b.k IS NULL``; and outer joins with one match of which it is only asked if there
was one.
"""

from __future__ import annotations

from typing import Any, TypeGuard

from vde_dagster.semantics.algebra import Derived, Group, Leaf, Node, Rel, Terms
from vde_dagster.semantics.normalise import negate
from vde_dagster.semantics.references import sources_in
from vde_dagster.semantics.simplify.facts import null_test
from vde_dagster.semantics.simplify.nulls import rejects_null
from vde_dagster.semantics.simplify.parts import Parts
from vde_dagster.semantics.simplify.uses import Uses
from vde_dagster.semantics.uniqueness import reached

_MOST_SOURCES = 12
"""In larger joins no keys are looked for, which costs precision but bounds the work."""


def tests_as_exists(parts: Parts) -> None:
    """Replace outer joins of which it is only asked whether there was a match."""
    asked = {test.parts[0] for test in map(null_test, parts.terms.nodes()) if _is_column(test)}
    if not any(source.op == "left" and source in asked for source in parts.derived()):
        return
    uses = Uses.of(parts.top)
    for group in list(parts.groups):
        for source in list(group.sources):
            if (
                isinstance(source, Derived)
                and source.op == "left"
                and source in uses.tests
                and source not in uses.values
                and source not in parts.frozen
                and source.group not in parts.shared
                and (source.unique or any(_tests(c, source) for c in group.conditions))
                and all(_tells_matches(test, source) for test in uses.tests[source])
            ):
                _replace_tests(source, group, uses.tests[source], parts)


def _is_column(node: Node | None) -> TypeGuard[Node]:
    return node is not None and node.tag == "ref"


def _tests(condition: Node, source: Any) -> bool:
    tested = null_test(condition)
    return tested is not None and tested.tag == "ref" and tested.parts[0] is source


def _tells_matches(test: Node, source: Derived) -> bool:
    """Whether the column that is tested for NULL has a value in every match."""
    tested = null_test(test)
    assert tested is not None
    inner = source.columns[tested.parts[1]]
    if _made_of(inner).tag in ("lit", "bool"):
        return True
    return any(rejects_null(c, inner) for c in source.group.conditions)


def _made_of(node: Node) -> Node:
    """What a column of a subquery is inside of it, where that has the same value."""
    while node.tag == "ref" and isinstance(node.parts[0], Derived):
        source: Derived = node.parts[0]
        if source.op == "left" or len(source.keys) > 1:
            break
        node = source.columns[node.parts[1]]
    return node


def _replace_tests(source: Derived, group: Group, tests: set[Node], parts: Parts) -> None:
    terms = parts.terms
    exists = _exists(source.group, parts)
    group.sources.remove(source)
    known = dict.fromkeys(tests, negate(terms, exists))
    known |= {terms.make("not", test): exists for test in tests}
    parts.replace(known)


def joins_as_exists(parts: Parts) -> set[Group]:
    """Replace inner joins to at most one row whose columns nobody uses.

    Returns:
        The groups that are asked for rows now.
    """
    made: set[Group] = set()
    joined = [group for group in parts.groups if any(map(_has_key, group.sources[:_MOST_SOURCES]))]
    joined = [group for group in joined if 1 < len(group.sources) <= _MOST_SOURCES]
    if not joined:
        return made
    uses = Uses.of(parts.top)
    for group in joined:
        if group in uses.groups:
            idle = [s for s in group.sources if _is_idle(s, group, uses, parts)]
            for some in _connected(_single(idle, group, parts.terms), group):
                made.add(_ask_for(some, group, parts))
    return made


def _is_idle(source: Any, group: Group, uses: Uses, parts: Parts) -> bool:
    """Whether a source may only decide which rows of the others there are."""
    if source in parts.frozen or not uses.only_asked_in(source, group):
        return False
    return isinstance(source, Leaf) or (_has_key(source) and not source.correlation.found)


def _has_key(source: Any) -> bool:
    """Whether a source may have a key at all."""
    if isinstance(source, Leaf):
        return bool(source.keys)
    return isinstance(source, Derived) and source.op == "agg"


def _single(idle: list[Any], group: Group, terms: Terms) -> list[Any]:
    """Those of the sources that have at most one row per row of what stays."""
    stay = {s for s in group.sources if s not in idle}
    stay |= {s for s in idle if s not in reached(group, {*group.sources} - {s}, terms)}
    if not stay:
        return []
    there = reached(group, stay, terms)
    return [s for s in idle if s in there and s not in stay]


def _connected(some: list[Any], group: Group) -> list[list[Any]]:
    """The sources, in parts that no condition connects."""
    left = list(some)
    found: list[list[Any]] = []
    named = [sources_in(c) & set(some) for c in group.conditions]
    while left:
        together = {left[0]}
        grown = True
        while grown:
            more = {s for names in named if names & together for s in names} - together
            together |= more
            grown = bool(more)
        found.append([s for s in left if s in together])
        left = [s for s in left if s not in together]
    return found


def _ask_for(some: list[Any], group: Group, parts: Parts) -> Group:
    """Move sources of a group and the conditions on them into an EXISTS."""
    asked = [c for c in group.conditions if sources_in(c) & set(some)]
    inner = Group(some, asked, group.joins & set(asked))
    group.sources = [s for s in group.sources if s not in some]
    group.conditions = [c for c in group.conditions if c not in asked]
    group.conditions.append(_exists(inner, parts, at=group))
    return inner


def _exists(group: Group, parts: Parts, at: Group | None = None) -> Node:
    rel = Rel(group, [], parts.top.scope, local=True)
    parts.rels.insert(0, rel)
    if at is not None:
        parts.groups.insert(parts.groups.index(at), group)
    return parts.terms.make("exists", rel)
