"""Whether a macro that asks for a variable which nobody sets does without it."""

from __future__ import annotations

import ast
import linecache
from types import FrameType


def does_without(frame: FrameType) -> bool:
    """Say whether the code at a frame may look whether it got a value.

    Args:
        frame: Where `evaluator.var('name')` is called.

    Returns:
        False only where the value is used as it is: then None would become part of a query.
    """
    code = frame.f_code
    lines = linecache.getlines(code.co_filename)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return True
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name == code.co_name
        and node.lineno <= frame.f_lineno <= (node.end_lineno or node.lineno)
    ]
    if len(functions) != 1:
        return True
    nodes = list(ast.walk(functions[0]))
    parents = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
    calls = [node for node in parents if _is_call(node, frame.f_lineno)]
    return not calls or any(_is_looked_at(call, parents, functions[0]) for call in calls)


def _is_call(node: ast.AST, line: int) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "var"
        and len(node.args) + len(node.keywords) == 1
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    )


def _is_looked_at(
    node: ast.AST, parents: dict[ast.AST, ast.AST], function: ast.FunctionDef
) -> bool:
    parent = parents.get(node)
    if isinstance(parent, ast.JoinedStr | ast.FormattedValue | ast.BinOp):
        return False
    if isinstance(parent, ast.Assign) and all(isinstance(t, ast.Name) for t in parent.targets):
        names = {target.id for target in parent.targets if isinstance(target, ast.Name)}
        uses = [
            use
            for use in ast.walk(function)
            if isinstance(use, ast.Name) and use.id in names and isinstance(use.ctx, ast.Load)
        ]
        return not uses or any(_is_more_than_text(use, parents) for use in uses)
    return True


def _is_more_than_text(use: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a name is used otherwise than as a part of a text."""
    return not isinstance(parents.get(use), ast.FormattedValue | ast.JoinedStr | ast.BinOp)
