"""Rebuilding expressions with some of their parts replaced."""

from __future__ import annotations

from collections.abc import Callable

from vde_dagster.semantics.algebra import Group, Node, Terms

Rule = Callable[[Node], Node | None]


def rewrite(node: Node, rule: Rule, terms: Terms, memo: dict[Node, Node]) -> Node:
    """Replace, from the top, every expression for which the rule has another one.

    Args:
        node: Where to start.
        rule: Returns the replacement, which is not looked into, or None to go on inside.
        terms: Where new expressions are made.
        memo: Shared between calls with the same rule.
    """
    done = memo.get(node)
    if done is not None:
        return done
    new = rule(node)
    if new is None:
        if node.tag in ("ref", "lit"):
            new = node
        else:
            parts = tuple(
                rewrite(p, rule, terms, memo) if p.__class__ is Node else p for p in node.parts
            )
            new = node if parts == node.parts else terms.make(node.tag, *parts)
    memo[node] = new
    return new


def complete_windows(nodes: list[Node], group: Group, terms: Terms) -> list[Node]:
    """Give pending windows the group that they are computed over."""
    completion = _Completion(group, terms)
    return [rewrite(node, completion, terms, completion.memo) for node in nodes]


class _Completion:
    """The rule for windows, which may stand in each other; a closure would keep itself alive."""

    def __init__(self, group: Group, terms: Terms) -> None:
        self._group = group
        self._terms = terms
        self.memo: dict[Node, Node] = {}

    def __call__(self, node: Node) -> Node | None:
        if node.tag != "pending window":
            return None
        inner = [
            rewrite(p, self, self._terms, self.memo) if p.__class__ is Node else p
            for p in node.parts
        ]
        return self._terms.make("window", self._group, *inner)
