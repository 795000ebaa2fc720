"""Which of the settings' variables a Python model may ask for: they are part of its version."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any

_METHOD = "var"
_GATEWAY = "gateway"


def asked_variables(
    function: Callable[..., Any], files: Mapping[str, str], variables: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the variables that a model's code names.

    They are its function's parameters, and what any of its files gives to a method `var`. If one
    of these is not a text, all variables count.

    Args:
        function: The model's function.
        files: Text by path of its module and what that imports.
        variables: All variables by name.

    Returns:
        Values by name in lower case.
    """
    known = {name.lower(): value for name, value in variables.items()}
    if not known:
        return {}
    names = {name.lower() for name in inspect.signature(function).parameters}
    for text in files.values():
        if f".{_METHOD}(" not in text and f".{_GATEWAY}" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and node.attr == _GATEWAY:
                names.add(_GATEWAY)
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr == _METHOD:
                first = next(iter([*node.args, *(word.value for word in node.keywords)]), None)
                if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
                    return dict(sorted(known.items()))
                names.add(first.value.lower())
    return {name: value for name, value in sorted(known.items()) if name in names}
