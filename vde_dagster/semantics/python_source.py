"""The version of a Python model: its source and all of the project's code that can matter to it.

Modules are read with `ast` and never imported or run. Taken in are the model's function, every
definition that it mentions, through imports too, and all that those mention; and of each module
that is imported on the way, every top-level statement that does more than bind names
(`python_inert`), for it runs with the import. Comments and formatting are no part of it;
docstrings are where they may be read. Where the text cannot tell what code reaches (star imports,
`globals()`, `importlib`), whole modules are taken in: unsure means changed.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from vde_dagster.base.hashing import digest_all, digest_values
from vde_dagster.base.outside import mentioned
from vde_dagster.semantics.python_mentions import is_docstring
from vde_dagster.semantics.python_modules import Module
from vde_dagster.semantics.python_reach import Reach


@dataclass(frozen=True, slots=True)
class PythonVersion:
    """What a Python model is made of.

    Args:
        text: Canonical text for `opaque_version`: the version of all code below, as hex.
        definitions: The definitions taken in as ``module:name`` (``module:*`` for whole modules).
        modules: The files taken in, relative to the project's root, in order.
        imports: Modules outside of the project that the code mentions.
        outside: Which of the files and environment variables that were offered it mentions.
    """

    text: str
    definitions: tuple[str, ...]
    modules: tuple[str, ...]
    imports: tuple[str, ...]
    outside: tuple[str, ...] = ()


def python_version(
    module: str | Path,
    function: str,
    project_root: str | Path,
    *,
    source: str | None = None,
    files: Mapping[str, str] | None = None,
    outside: Mapping[str, str] | None = None,
) -> PythonVersion:
    """The version of a function's code.

    Args:
        module: The file that defines the function, absolute or relative to the root.
        function: Its name at the module's top level.
        project_root: Only modules below it are followed.
        source: The module's text, if it is not to be read from the file.
        files: The texts of all of the project's modules, by path relative to the root, if nothing
            at all is to be read from files.
        outside: Hashes of what the code may read when it runs, see `project.outside`; those whose
            names stand in the code taken in are part of the version.

    Raises:
        SyntaxError: A file that is reached is not valid Python.
        LookupError: The module defines no such function.
    """
    root = Path(project_root).resolve()
    path = (root / module).resolve()
    reach = Reach(root, files)
    start = reach.modules.load(path, source)
    if function not in start.bindings:
        raise LookupError(f"{path.name} defines no {function}")
    reach.start(start, function)
    return _version(reach, outside or {})


def _version(reach: Reach, outside: Mapping[str, str]) -> PythonVersion:
    taken = [module for module in reach.executed if reach.kept[module]]
    taken.sort(key=lambda module: module.path)
    read = mentioned(outside, reach.texts)
    parts: list[bytes | str | None] = []
    for module in taken:
        parts += [module.name, reach.modules.relative(module), _hash(reach, module)]
    if reach.by_text:
        # A module's name at run time is made of all texts, see `project.python.runtime`.
        root = str(reach.modules.root)
        texts = sorted(reach.modules.texts().items())
        parts += [part for path, text in texts for part in (path.removeprefix(root), text)]
    parts += ["imports", *sorted(reach.foreign), "outside"]
    parts += [text for name in read for text in (name, outside[name])]
    return PythonVersion(
        text=digest_all("python", parts).hex(),
        definitions=tuple(sorted(d for module in taken for d in _definitions(reach, module))),
        modules=tuple(sorted(reach.modules.relative(module) for module in taken)),
        imports=tuple(sorted(reach.foreign)),
        outside=tuple(read),
    )


def _definitions(reach: Reach, module: Module) -> set[str]:
    if module in reach.whole:
        return {f"{module.name}:*"}
    kept = reach.kept[module]
    names = (name for name, places in module.bindings.items() if kept & set(places))
    return {f"{module.name}:{name}" for name in names}


def _hash(reach: Reach, module: Module) -> bytes:
    """Hash what is taken in of a module.

    The order of definitions is left out only where nothing runs between them that could tell.
    """
    if reach.by_text:
        return digest_values("text", module.name)
    documents = {i for i, s in enumerate(module.statements) if is_docstring(s)}
    kept = reach.kept[module]
    kept = kept | documents if reach.documents else kept - documents
    dumps = {index: _dump(reach, module, index) for index in sorted(kept)}
    futures = ",".join(sorted(module.futures))
    if reach.is_in_order(module):
        return digest_values("in order", futures, *dict.fromkeys(dumps.values()))
    run = [text for index, text in dumps.items() if index in reach.run[module]]
    bound = [text for index, text in dumps.items() if index not in reach.run[module]]
    return digest_values("any order", futures, *dict.fromkeys(run), "|", *sorted(bound))


def _dump(reach: Reach, module: Module, index: int) -> str:
    statement = module.statements[index]
    if isinstance(statement, (ast.Import, ast.ImportFrom)) and index not in reach.named[module]:
        # What it binds is not used: it only runs the modules.
        names = [m.name for m in reach.modules.executed(statement, module)]
        base = module.base(statement) if isinstance(statement, ast.ImportFrom) else ""
        return "import " + (",".join(names) or base or statement.names[0].name)
    return ast.dump(statement if reach.documents else _Bare().visit(deepcopy(statement)))


class _Bare(ast.NodeTransformer):
    """Drops docstrings."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            body = node.body
            if body and is_docstring(body[0]):
                node.body = body[1:] or [ast.Pass()]
        return node
