"""Which imports, decorators, base classes and calls from outside of a project do nothing.

What is not on these lists may do anything.
"""

from __future__ import annotations

import ast
import builtins
import sys

ENGINE = frozenset({"numpy", "pandas", "pyarrow", "pyspark", "sqlglot", "sqlmesh", "vde_dagster"})
"""Packages that the engine itself has imported before any model's code."""

DECORATORS = frozenset(
    {"abc.abstractmethod", "builtins.classmethod", "builtins.property", "builtins.staticmethod"}
    | {"contextlib.contextmanager", "dataclasses.dataclass", "enum.unique", "functools.cache"}
    | {"functools.cached_property", "functools.lru_cache", "functools.total_ordering"}
    | {"functools.wraps", "sqlmesh.macro", "sqlmesh.model", "typing.final", "typing.overload"}
    | {"pyspark.sql.functions.pandas_udf", "pyspark.sql.functions.udf", "vde_dagster.macro"}
    | {"vde_dagster.model"}
)
"""Decorators that call nothing but themselves, and note nothing that a model could read."""

BASES = frozenset(
    {"abc.ABC", "builtins.object", "typing.Generic", "typing.NamedTuple", "typing.Protocol"}
    | {"typing.TypedDict"}
    | {
        f"builtins.{name}"
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    }
)
"""Classes that run no code when a class is made from them."""

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
"""Calls that do nothing but make a value from their arguments."""

PURE_MODULES = ("pyspark.sql.types.",)


def is_harmless(statement: ast.Import | ast.ImportFrom) -> bool:
    """Say whether an import changes nothing for other code; its module is not the project's."""
    if isinstance(statement, ast.ImportFrom):
        if statement.level:
            return False
        names = [statement.module or ""]
    else:
        names = [alias.name for alias in statement.names]
    tops = {name.partition(".")[0] for name in names}
    return tops <= (ENGINE | sys.stdlib_module_names)
