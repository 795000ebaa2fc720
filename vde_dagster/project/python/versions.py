"""Version of a Python model: its source and all code of the project that it can reach.

Modules are parsed with `ast`, not imported or run. The version includes the model's function, every
definition that it mentions, also through imports, and all definitions that these mention. It also
includes every top-level statement with side effects (`side_effects`) of imported modules, because
it runs with the import. Comments, formatting and docstrings are left out, unless the included code
may read them. If the included code may use objects without naming them (star imports, `globals()`,
`importlib`), whole modules are included; the version may then change unnecessarily.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from vde_dagster.base.hashing import digest_tagged, digest_values
from vde_dagster.base.outside import find_mentioned_inputs
from vde_dagster.project.python.module_texts import (
    BUILTINS,
    Function,
    Import,
    Module,
    Modules,
    imports_within,
    is_docstring,
    mentions,
)
from vde_dagster.project.python.side_effects import Effect, Inertness


def python_version(
    module: str, function: str, files: Mapping[str, str], outside: Mapping[str, str]
) -> str:
    """Hash a function's code and all project code that it can reach, as hexadecimal digits.

    Args:
        module: Path of the file that defines the function at its top level.
        files: Texts of the project's modules, by path relative to its root.
        outside: Hashes of files and variables that the code may read at run time, see
            `base.outside`; entries named in the included code are part of the version.

    Raises:
        SyntaxError: A reached file is not valid Python.
        LookupError: The module does not define the function.
    """
    reach = _find_reachable_code(module, function, files)
    parts: list[bytes | str | None] = []
    for one in reach.included:
        parts += [one.name, one.path, _hash_module(reach, one)]
    if reach.by_text:
        # A module's name at run time depends on all texts, see `project.python.files`.
        parts += [part for path, text in sorted(files.items()) for part in (f"/{path}", text)]
    parts += ["imports", *sorted(reach.foreign), "outside"]
    for name in find_mentioned_inputs(outside, reach.texts):
        parts += [name, outside[name]]
    return digest_tagged("python", parts).hex()


def reached_inputs(
    module: str, function: str, files: Mapping[str, str], outside: Mapping[str, str]
) -> dict[str, bytes | str]:
    """Hash the code in other modules, and the files and variables, that a function can reach.

    Takes the same arguments as `python_version`. The keys are paths of modules, or names in
    `outside`.
    """
    reach = _find_reachable_code(module, function, files)
    found: dict[str, bytes | str] = {
        one.path: _hash_module(reach, one) for one in reach.included if one.path != module
    }
    return found | {name: outside[name] for name in find_mentioned_inputs(outside, reach.texts)}


def _find_reachable_code(module: str, function: str, files: Mapping[str, str]) -> _ReachableCode:
    reach = _ReachableCode(files)
    start = reach.modules.load(module)
    if function not in start.bindings:
        raise LookupError(f"{module} does not define {function}")
    reach.start(start, function)
    return reach


def _hash_module(reach: _ReachableCode, module: Module) -> bytes:
    if reach.by_text:
        return digest_values("text", module.name)
    documents = {i for i, s in enumerate(module.statements) if is_docstring(s)}
    kept = reach.kept[module]
    kept = kept | documents if reach.documents else kept - documents
    dumps = {index: _dump_statement(reach, module, index) for index in sorted(kept)}
    futures = ",".join(sorted(module.futures))
    if reach.is_in_order(module):
        return digest_values("in order", futures, *dict.fromkeys(dumps.values()))
    run = [text for index, text in dumps.items() if index in reach.run[module]]
    bound = [text for index, text in dumps.items() if index not in reach.run[module]]
    return digest_values("any order", futures, *dict.fromkeys(run), "|", *sorted(bound))


def _dump_statement(reach: _ReachableCode, module: Module, index: int) -> str:
    statement = module.statements[index]
    if isinstance(statement, Import) and index not in reach.named[module]:
        # Its names are not used: it only runs the modules.
        names = [m.name for m in reach.modules.executed(statement, module)]
        base = module.base(statement) if isinstance(statement, ast.ImportFrom) else ""
        return "import " + (",".join(names) or base or statement.names[0].name)
    return ast.dump(statement if reach.documents else _remove_docstrings(statement))


def _remove_docstrings(node: ast.AST) -> ast.AST:
    """Return a node without docstrings: a copy if it had docstrings, otherwise the node itself."""
    # A deep copy would contain whole other trees: all trees share nodes such as `ast.Load()`, and
    # IPython's tracebacks set an attribute `parent` of each node.
    fields = dict(ast.iter_fields(node))
    new = {name: _remove_from_field(value) for name, value in fields.items()}
    if isinstance(node, Function | ast.ClassDef) and is_docstring(node.body[0]):
        new["body"] = new["body"][1:] or [ast.Pass()]
    return node if new == fields else type(node)(**new)


def _remove_from_field(value: Any) -> Any:
    if isinstance(value, list):
        return [_remove_from_field(one) for one in value]
    return _remove_docstrings(value) if isinstance(value, ast.AST) else value


class _ReachableCode:
    def __init__(self, files: Mapping[str, str]) -> None:
        self.modules = Modules(files)
        self.executed: dict[Module, None] = {}
        """Imported modules."""
        self.kept: dict[Module, set[int]] = defaultdict(set)
        """Indexes of included statements."""
        self.run: dict[Module, set[int]] = defaultdict(set)
        """Indexes of statements that are included because they run with the import."""
        self.named: dict[Module, set[int]] = defaultdict(set)
        """Imports whose names are used."""
        self.whole: set[Module] = set()
        self.foreign: set[str] = set()
        self.texts: set[str] = set()
        self.by_text = False
        self.documents = False
        self._anywhere = False
        self._escaped: set[str] = set()
        self._inertness = Inertness(self.modules)
        self._waiting: list[tuple[Module, int]] = []
        self._used: set[tuple[Module, int, tuple[str, ...]]] = set()

    def start(self, module: Module, function: str) -> None:
        self._execute(module)
        self._add_definition(module, function)
        while self._waiting:
            while self._waiting:
                self._add_mentions(*self._waiting.pop())
            for found in list(self.executed):
                escaped = any(found.name.startswith(f"{name}.") for name in self._escaped)
                if self._anywhere or escaped:
                    self._add_module(found)

    @property
    def included(self) -> list[Module]:
        """The modules with included statements, by path."""
        found = [module for module in self.executed if self.kept[module]]
        return sorted(found, key=lambda module: module.path.split("/"))

    def is_in_order(self, module: Module) -> bool:
        # Only statements that bind each name once, and no built-in's name, have no order.
        kept = self.kept[module]
        runs = range(len(module.statements))
        if any(self._inertness.effect(module, index) is Effect.ANY for index in runs):
            return True
        return any(
            kept & set(places) and (len(places) > 1 or name in BUILTINS)
            for name, places in module.bindings.items()
        )

    def _execute(self, module: Module) -> None:
        if module in self.executed:
            return
        self.executed[module] = None
        for index, statement in enumerate(module.statements):
            effect = self._inertness.effect(module, index)
            if effect is not Effect.NONE:
                self.run[module].add(index)
                self._keep(module, index)
            if effect is Effect.ANY or isinstance(statement, Import):
                for node in imports_within(statement, functions=False):
                    self._execute_imported(module, node)

    def _execute_imported(self, module: Module, node: Import) -> None:
        for target in self.modules.executed(node, module):
            self._execute(target)

    def _add_module(self, module: Module) -> None:
        if module in self.whole:
            return
        self.whole.add(module)
        self._execute(module)
        for index in range(len(module.statements)):
            self._keep(module, index)
            self._add_import(module, index, ())

    def _keep(self, module: Module, index: int) -> None:
        if index not in self.kept[module]:
            self.kept[module].add(index)
            self._waiting.append((module, index))

    def _add_definition(self, module: Module, name: str, rest: tuple[str, ...] = ()) -> None:
        """Include a name's definition; `rest` are the attributes after the name in the code."""
        for index in module.bindings.get(name, ()):
            self._keep(module, index)
            self._add_import(module, index, rest)
        if module.is_package and self.modules.find(f"{module.name}.{name}", module) is not None:
            self._module_object(module, f"{module.name}.{name}", rest)

    def _add_import(self, module: Module, index: int, rest: tuple[str, ...]) -> None:
        """Include the definitions that a top-level import binds."""
        statement = module.statements[index]
        if (module, index, rest) in self._used:
            return
        self._used.add((module, index, rest))
        if isinstance(statement, Import):
            self.named[module].add(index)
            self._follow(module, statement, rest)

    def _follow(self, module: Module, node: Import, rest: tuple[str, ...]) -> None:
        self._execute_imported(module, node)
        for alias in node.names:
            if isinstance(node, ast.Import):
                if alias.asname:
                    self._module_object(module, alias.name, rest)
                else:
                    self._module_object(module, alias.name.partition(".")[0], rest)
                continue
            base = module.base(node)
            target = self.modules.find(base, module)
            dotted = f"{base}.{alias.name}" if base else alias.name
            child = self.modules.find(dotted, module)
            if child is not None:
                self._module_object(module, dotted, rest)
            if target is not None and alias.name in target.bindings:
                self._add_definition(target, alias.name, rest)
            elif target is not None and child is None:
                self._add_module(target)
            elif child is None:
                self._add_external_package(base)

    def _module_object(self, where: Module, dotted: str, rest: tuple[str, ...]) -> None:
        """Include all code of a module or submodule that is used as a value."""
        found = self.modules.find(dotted, where)
        child = self.modules.find(f"{dotted}.{rest[0]}", where) if rest else None
        if child is not None and rest:
            self._execute(child)
            self._module_object(where, f"{dotted}.{rest[0]}", rest[1:])
            if found is not None and rest[0] in found.bindings:
                self._add_definition(found, rest[0], rest[1:])
        elif found is not None:
            self._execute(found)
            self._add_module(found)
            if not rest:
                self._escaped.add(found.name)
        else:
            # A folder without __init__.py, or an external package.
            if not rest:
                self._escaped.add(dotted)
            self._add_external_package(dotted)

    def _add_external_package(self, dotted: str) -> None:
        if dotted and dotted != "__future__":
            self.foreign.add(dotted.partition(".")[0])

    def _add_mentions(self, module: Module, index: int) -> None:
        statement = module.statements[index]
        found = mentions([statement])
        self.texts |= found.texts
        self.by_text |= found.by_text
        self.documents |= found.documents
        self._anywhere |= found.anywhere or self._changes_outside(module, statement)
        if found.here:
            self._add_module(module)
        if isinstance(statement, Import):
            if statement.names[0].name == "*":
                self._add_module(module)
                for target in self.modules.executed(statement, module):
                    self._add_module(target)
            if self._inertness.import_effect(module, index) is Effect.FOREIGN:
                self.documents = True  # Some packages read docstrings.
            return
        for chain in found.chains:
            self._add_definition(module, chain[0], chain[1:])
        for word in found.words & module.bindings.keys():
            self._add_definition(module, word)
        for node in imports_within(statement, functions=True):
            for rest in _attributes(statement, node, found.chains):
                self._follow(module, node, rest)

    def _changes_outside(self, module: Module, statement: ast.stmt) -> bool:
        for node in ast.walk(statement):
            if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
                continue
            base: ast.expr = node
            while isinstance(base, (ast.Attribute, ast.Subscript, ast.Call)):
                base = base.func if isinstance(base, ast.Call) else base.value
            if isinstance(base, ast.Name):
                places = module.bindings.get(base.id, ())
                bound = (module.statements[place] for place in places)
                if any(isinstance(s, Import) for s in bound):
                    return True
        return False


def _attributes(
    statement: ast.stmt, node: Import, chains: set[tuple[str, ...]]
) -> set[tuple[str, ...]]:
    """Return the attributes of imported modules that a function uses; `()` is a whole module."""
    local = isinstance(statement, Function) and not any(
        isinstance(inner, ast.Global) for inner in ast.walk(statement)
    )
    bound = {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    rests = {chain[1:] for chain in chains if chain[0] in bound} if local else set()
    return rests or {()}
