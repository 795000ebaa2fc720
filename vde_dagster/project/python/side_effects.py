"""Side effects of top-level statements in Python modules, beyond binding names.

A model's version leaves out a statement without side effects if no code mentions its names. Every
statement that is not on the lists below may have side effects: it runs when its module is
imported, and may change anything.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Collection
from enum import IntEnum
from functools import cache

from vde_dagster.project.python.module_texts import (
    BUILTINS,
    Function,
    Import,
    Module,
    Modules,
    is_own_name,
)


class Effect(IntEnum):
    """Kind of side effect that a statement has when its module is imported."""

    NONE = 0
    FOREIGN = 1  # imports a package that may change other packages
    ANY = 2


_DEPTH = 20
_OWN_DUNDERS = frozenset({"__all__", "__author__", "__version__"})


class Inertness:
    """Determines which top-level statements of modules have side effects."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules
        self.effect = cache(self._find_effect)
        self.import_effect = cache(self._find_import_effect)

    def _find_effect(self, module: Module, index: int) -> Effect:
        statement = module.statements[index]
        if isinstance(statement, Import):
            return self.import_effect(module, index)
        return Effect.NONE if self._is_inert(module, statement) else Effect.ANY

    def _find_import_effect(self, module: Module, index: int) -> Effect:
        worst = Effect.NONE
        waiting, seen = [(module, index)], {(module.path, index)}
        while waiting:
            where, number = waiting.pop()
            statement = where.statements[number]
            if not isinstance(statement, Import):
                if not self._is_inert(where, statement):
                    return Effect.ANY
                continue
            own = self._modules.executed(statement, where)
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                return Effect.ANY
            if not own and not is_harmless(statement):
                worst = Effect.FOREIGN
            for target in own:
                steps = [(target, i) for i in range(len(target.statements))]
                fresh = [s for s in steps if (s[0].path, s[1]) not in seen]
                seen |= {(s[0].path, s[1]) for s in fresh}
                waiting += fresh
        return worst

    def _is_inert(
        self, module: Module, statement: ast.stmt, of_class: Collection[str] | None = None
    ) -> bool:
        """Return whether a statement only binds names.

        In a class body, `of_class` has the names of the class's functions.
        """
        if isinstance(statement, Function):
            special = of_class is None and _is_special(statement.name)
            return not special and self._is_inert_function(module, statement, of_class or ())
        if isinstance(statement, ast.ClassDef):
            return self._is_inert_class(module, statement, ())
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if not all(isinstance(t, ast.Name) and not _is_special(t.id) for t in targets):
                return False
            annotation = statement.annotation if isinstance(statement, ast.AnnAssign) else None
            # In a class, any other object may be a descriptor with `__set_name__`.
            return self._is_type(module, annotation) and (
                statement.value is None
                or self._is_value(module, statement.value, literal=of_class is not None)
            )
        if isinstance(statement, ast.If) and of_class is None:
            checking = self._external_name(module, statement.test) == "typing.TYPE_CHECKING"
            return checking and not statement.orelse
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        return is_text or isinstance(statement, ast.Pass)

    def _is_inert_function(
        self, module: Module, node: Function, properties: Collection[str]
    ) -> bool:
        defaults = (d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None)
        named = (a.annotation for a in ast.walk(node.args) if isinstance(a, ast.arg))
        return (
            all(self._is_decorator(module, d, properties) for d in node.decorator_list)
            and all(self._is_value(module, d) for d in defaults)
            and all(self._is_type(module, t) for t in (node.returns, *named))
            and not getattr(node, "type_params", None)
        )

    def _is_decorator(self, module: Module, node: ast.expr, properties: Collection[str]) -> bool:
        if isinstance(node, ast.Attribute) and node.attr in ("setter", "deleter", "getter"):
            return isinstance(node.value, ast.Name) and node.value.id in properties
        function = node.func if isinstance(node, ast.Call) else node
        values = _all_arguments(node) if isinstance(node, ast.Call) else []
        known = self._external_name(module, function) in DECORATORS
        return known and all(self._is_value(module, value) for value in values)

    def _is_inert_class(
        self, module: Module, node: ast.ClassDef, children: tuple[ast.ClassDef, ...]
    ) -> bool:
        """Return whether defining a class, and deriving `children` from it, only binds names."""
        if node in children or _is_special(node.name):
            return False
        functions = [f for f in node.body if isinstance(f, Function)]
        names = {f.name for f in functions}
        if children and names & {"__init_subclass__", "__class_getitem__"}:
            return False
        if any(k.arg not in ("metaclass", "total") for k in node.keywords):
            return False
        metaclasses = [k.value for k in node.keywords if k.arg == "metaclass"]
        if any(self._external_name(module, m) != "abc.ABCMeta" for m in metaclasses):
            return False
        return (
            all(self._is_decorator(module, d, ()) for d in node.decorator_list)
            and all(self._is_base(module, b, (*children, node)) for b in node.bases)
            and all(self._is_inert(module, s, names) for s in node.body)
            and not getattr(node, "type_params", None)
        )

    def _is_base(self, module: Module, base: ast.expr, children: tuple[ast.ClassDef, ...]) -> bool:
        if isinstance(base, ast.Subscript):
            return self._external_name(module, base.value) in BASES and self._is_type(
                module, base.slice
            )
        known = self._external_name(module, base)
        if known in ENUMS:
            # An enum calls its own functions when it is created.
            return not any(isinstance(s, ast.FunctionDef) for c in children for s in c.body)
        if known in BASES:
            return True
        if not isinstance(base, ast.Name):
            return False
        where, statement = module, module.sole(base.id)
        if isinstance(statement, ast.ImportFrom):
            found = self._modules.find(module.base(statement), module)
            if found is None or found.is_package:
                return False
            where, statement = found, found.sole(statement.names[0].name)
        return isinstance(statement, ast.ClassDef) and self._is_inert_class(
            where, statement, children
        )

    def _is_value(self, module: Module, node: ast.expr, *, literal: bool = False) -> bool:
        """Return whether evaluating an expression changes nothing and runs no code of the project.

        With `literal`, the expression must also consist of constants and known calls on constants.
        """
        if isinstance(node, ast.Constant) or self._is_number(module, node):
            return True
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            literal = literal or isinstance(node, ast.Set)
            return all(self._is_value(module, one, literal=literal) for one in node.elts)
        if isinstance(node, ast.Dict):
            keys = (k is not None and self._is_value(module, k, literal=True) for k in node.keys)
            values = (self._is_value(module, value, literal=literal) for value in node.values)
            return all(keys) and all(values)
        if isinstance(node, ast.Call):
            called = self._external_name(module, node.func) or ""
            arguments = _all_arguments(node)
            if called == "logging.getLogger":
                arguments = [one for one in arguments if not is_own_name(one)]
            pure = called in CALLS or called.startswith(PURE_MODULES)
            return pure and all(self._is_value(module, one, literal=True) for one in arguments)
        if isinstance(node, (ast.Name, ast.Attribute)):
            known = self._external_name(module, node)
            if literal:
                return (known or "").startswith(("builtins.", "datetime.", "typing."))
            return known is not None or isinstance(node, ast.Name)
        if isinstance(node, ast.Lambda) and not literal:
            defaults = (d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None)
            return all(self._is_value(module, d) for d in defaults)
        return isinstance(node, ast.Subscript) and not literal and self._is_type(module, node)

    def _is_number(self, module: Module, node: ast.expr, depth: int = 0) -> bool:
        if depth > _DEPTH:
            return False
        if isinstance(node, ast.Constant):
            return type(node.value) in (int, float)
        if isinstance(node, ast.UnaryOp):
            signed = isinstance(node.op, (ast.UAdd, ast.USub))
            return signed and self._is_number(module, node.operand, depth + 1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            sides = (node.left, node.right)
            return all(self._is_number(module, side, depth + 1) for side in sides)
        if isinstance(node, ast.Name):
            statement = module.sole(node.id)
            return isinstance(statement, ast.Assign) and self._is_number(
                module, statement.value, depth + 1
            )
        return False

    def _is_type(self, module: Module, node: ast.expr | None, *, outside: bool = False) -> bool:
        """Return whether an annotation can be evaluated without side effects.

        If `outside` is true, names must come from outside of the project.
        """
        if node is None or "annotations" in module.futures or isinstance(node, ast.Constant):
            return True
        if isinstance(node, (ast.Name, ast.Attribute)):
            plain = isinstance(node, ast.Name) and not outside
            return plain or self._external_name(module, node) is not None
        if isinstance(node, (ast.Tuple, ast.List)):
            return not outside and all(self._is_type(module, e) for e in node.elts)
        if isinstance(node, ast.Subscript):
            known = self._external_name(module, node.value) is not None
            return known and self._is_type(module, node.slice)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            # A class of the project may define the operator `|`.
            return all(self._is_type(module, s, outside=True) for s in (node.left, node.right))
        return False

    def _external_name(self, module: Module, node: ast.expr) -> str | None:
        """Return an expression's dotted name if it refers to something outside of the project."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        parts.reverse()
        if node.id not in module.bindings:
            return ".".join(["builtins", node.id, *parts]) if node.id in BUILTINS else None
        statement = module.sole(node.id)
        if not isinstance(statement, Import):
            return None
        if self._modules.executed(statement, module) or not is_harmless(statement):
            return None
        alias = statement.names[0]
        if isinstance(statement, ast.Import):
            base = alias.name if alias.asname else alias.name.partition(".")[0]
            return ".".join([base, *parts])
        return ".".join([statement.module or "", alias.name, *parts])


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in _OWN_DUNDERS


def _all_arguments(call: ast.Call) -> list[ast.expr]:
    named = [k.value if k.arg else ast.Starred(value=k.value) for k in call.keywords]
    return [*call.args, *named]


ENGINE = frozenset({"numpy", "pandas", "pyarrow", "pyspark", "sqlglot", "sqlmesh", "vde_dagster"})
"""Packages that the engine imports before any model's code."""

DECORATORS = frozenset(
    {"abc.abstractmethod", "builtins.classmethod", "builtins.property", "builtins.staticmethod"}
    | {"contextlib.contextmanager", "dataclasses.dataclass", "enum.unique", "functools.cache"}
    | {"functools.cached_property", "functools.lru_cache", "functools.total_ordering"}
    | {"functools.wraps", "sqlmesh.macro", "sqlmesh.model", "typing.final", "typing.overload"}
    | {"pyspark.sql.functions.pandas_udf", "pyspark.sql.functions.udf", "vde_dagster.macro"}
    | {"vde_dagster.model"}
)
"""Decorators that run no other code and store nothing that a model could read."""

BASES = frozenset(
    {"abc.ABC", "builtins.object", "typing.Generic", "typing.NamedTuple", "typing.Protocol"}
    | {"typing.TypedDict"}
    | {
        f"builtins.{name}"
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    }
)
"""Base classes that run no code when they are subclassed."""

ENUMS = frozenset(f"enum.{name}" for name in ("Enum", "Flag", "IntEnum", "IntFlag", "StrEnum"))
CALLS = frozenset(
    {f"builtins.{n}" for n in ("bytes", "dict", "float", "frozenset", "int", "list", "object")}
    | {f"builtins.{n}" for n in ("range", "set", "str", "tuple")}
    | {f"collections.{n}" for n in ("Counter", "OrderedDict", "defaultdict", "deque", "namedtuple")}
    | {f"datetime.{n}" for n in ("date", "datetime", "time", "timedelta", "timezone")}
    | {"dataclasses.field", "decimal.Decimal", "enum.auto", "fractions.Fraction"}
    | {"logging.getLogger", "pathlib.Path", "pathlib.PurePath", "re.compile", "typing.NewType"}
    | {"typing.TypeVar"}
)
"""Calls that only compute a value from their arguments."""

PURE_MODULES = ("pyspark.sql.types.",)


def is_harmless(statement: Import) -> bool:
    """Return whether an import of a package outside the project affects no other code."""
    if isinstance(statement, ast.ImportFrom):
        if statement.level:
            return False
        names = [statement.module or ""]
    else:
        names = [alias.name for alias in statement.names]
    tops = {name.partition(".")[0] for name in names}
    return tops <= (ENGINE | sys.stdlib_module_names)
