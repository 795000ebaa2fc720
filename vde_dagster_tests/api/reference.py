"""Write docs/reference/api.md from the docstrings of the public API and the examples of its tests.

    python -m vde_dagster_tests.api.reference

The example of a name is the body of the test `test_<name>` in `test_<module>.py` of this folder.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import vde_dagster
from vde_dagster import api

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"
FIRST_RELEASE = "0.1.0"
_SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises):$", re.MULTILINE)
_ROOT = "project_files"
"""The module of examples for the names of `vde_dagster` itself."""


def modules() -> list[ModuleType]:
    """Return the modules of the API, sorted by name."""
    names = sorted(found.name for found in pkgutil.iter_modules(api.__path__))
    return [importlib.import_module(f"vde_dagster.api.{name}") for name in names]


def public_names(module: ModuleType) -> list[str]:
    """Return the names that a module declares, ignoring case in their order."""
    return sorted(module.__all__, key=str.casefold)


def docstring(module: ModuleType, name: str) -> str:
    """Return the docstring of a name; that of a constant is the text below its assignment."""
    value = getattr(module, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        return inspect.cleandoc(value.__doc__ or "")
    return _constants(module).get(name, "")


def examples(module: str) -> dict[str, str]:
    """Return the examples of a module by name, with the imports and definitions that they use."""
    text = (Path(__file__).parent / f"test_{module}.py").read_text("utf-8")
    tree = ast.parse(text)
    own = {name: node for node in tree.body if (name := _defined_name(node))}
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            used, waiting = set[str](), _used_names(*node.body)
            while new := waiting - used:
                used |= new
                waiting = _used_names(*(own[name] for name in new if name in own))
            before = [_source(text, one) for name, one in own.items() if name in used]
            first = _first_line(node.body[0]) - 1
            body = "\n".join(text.splitlines()[first : node.end_lineno])
            parts = ["\n".join(_imports(tree, used)), *before, textwrap.dedent(body)]
            found[node.name.removeprefix("test_")] = "\n\n".join(filter(None, parts))
    return found


def _defined_name(node: ast.stmt) -> str | None:
    """Return the name of a constant, class or function that examples of a file share."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("test_"):
        return node.name
    return None


def _used_names(*nodes: ast.stmt) -> set[str]:
    return {one.id for node in nodes for one in ast.walk(node) if isinstance(one, ast.Name)}


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", ()))])


def _source(text: str, node: ast.stmt) -> str:
    return "\n".join(text.splitlines()[_first_line(node) - 1 : node.end_lineno])


def _imports(tree: ast.Module, used: set[str]) -> Iterator[str]:
    """Yield the imports of used names, from all modules but those of the tests."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith(
            "vde_dagster_tests"
        ):
            names = [one.name for one in node.names if one.name in used]
            if names:
                yield f"from {node.module} import {', '.join(names)}"
        elif isinstance(node, ast.Import):
            yield from (
                f"import {one.name}" + (f" as {one.asname}" if one.asname else "")
                for one in node.names
                if (one.asname or one.name) in used
            )


def page() -> str:
    """Return the reference as Markdown."""
    parts = [
        "# API reference",
        "This page lists what plug-ins, project files and code locations import. All other "
        "modules of `vde_dagster`\nmay change with any release. [Extending](../extending.md) "
        "explains which parts a plug-in consists of.",
        "The page is written by `python -m vde_dagster_tests.api.reference`; each example is a "
        "test.",
    ]
    for module in modules():
        short = module.__name__.rsplit(".", 1)[1]
        parts += [f"## vde_dagster.api.{short}", inspect.cleandoc(module.__doc__ or "")]
        parts += _entries(module, public_names(module), examples(short))
    parts += ["## vde_dagster", _ROOT_TEXT]
    parts += _entries(vde_dagster, sorted(vde_dagster.__all__, key=str.casefold), examples(_ROOT))
    return "\n\n".join(parts) + "\n"


_ROOT_TEXT = (
    "Names for the project's own Python files, and for authors of Dagster `Definitions`. Each is "
    "imported at its\nfirst use, so that a project's files need no Dagster."
)


def _entries(module: ModuleType, names: list[str], shown: dict[str, str]) -> Iterator[str]:
    for name in names:
        yield f"### {name}"
        yield f"*{_form(getattr(module, name))}, since {api.SINCE.get(name, FIRST_RELEASE)}*"
        yield _sections(docstring(module, name))
        yield f"```python\n{shown[name]}\n```"


def _form(value: Any) -> str:
    if inspect.isclass(value):
        return "exception" if issubclass(value, BaseException) else "class"
    return "function" if inspect.isroutine(value) else "value"


def _sections(text: str) -> str:
    """Write a docstring's sections as lists."""
    head, *rest = _SECTION.split(text)
    parts = [head.strip()]
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        items = re.split(r"\n(?=\S)", textwrap.dedent(body.strip("\n")).strip())
        lines = [" ".join(item.split()) for item in items]
        parts.append(f"{title}:\n\n" + "\n".join(f"- {_named(line)}" for line in lines))
    return "\n\n".join(parts)


def _named(line: str) -> str:
    return re.sub(r"^(\w+): ", r"`\1`: ", line)


def _constants(module: ModuleType) -> dict[str, str]:
    """Return the texts below assignments, of the modules that a module imports names from."""
    found: dict[str, str] = {}
    tree = ast.parse(Path(module.__file__ or "").read_text("utf-8"))
    homes = [node.module for node in tree.body if isinstance(node, ast.ImportFrom) and node.module]
    for home in homes:
        body = ast.parse(Path(sys.modules[home].__file__ or "").read_text("utf-8")).body
        for node, after in pairwise(body):
            target = (
                node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            )
            if isinstance(target, ast.Name) and isinstance(after, ast.Expr):
                text = getattr(after.value, "value", None)
                if isinstance(text, str):
                    found[target.id] = inspect.cleandoc(text)
    return found


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
