"""SQLMesh's Python models: the decorator, kinds as objects, and writers of CUSTOM tables."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from vde_dagster.errors import ExecutionError
from vde_dagster.project.kinds import KINDS
from vde_dagster.project.macros.registry import F, note, noting_model
from vde_dagster.project.python.sqlmesh.values import choices


def model(name: str = "", is_sql: bool = False, **options: Any) -> Callable[[F], F]:
    """Make a Python function a model, with SQLMesh's conventions.

    `end` is the last instant of the interval, variables are passed as keywords, and the context has
    SQLMesh's methods.

    Args:
        name: The model's name. It can be left out if names are derived from paths.
        is_sql: Whether the function returns SQL.
    """
    line = sys._getframe(1).f_lineno
    given = {"kind": None, "columns": {}, **options, "is_sql": is_sql}
    given["columns"] = given["columns"] or {}
    # Tables that the code names are found in any case.
    given["depends_on"] = tuple(given.get("depends_on") or ())
    return noting_model(name, given, line, for_sqlmesh=True)


ModelKindName = choices("ModelKindName", *KINDS.by_name, "MANAGED", "DBT_CUSTOM")
"""Names of kinds; a model of a kind that is not supported is an error."""
_CHANGES = ("ERROR", "WARN", "ALLOW", "IGNORE")
OnDestructiveChange = choices("OnDestructiveChange", *_CHANGES)
OnAdditiveChange = choices("OnAdditiveChange", *_CHANGES)


class ModelKind(dict[str, Any]):
    """Dictionary of a kind's name and properties, which `@model(kind=…)` accepts."""

    NAME = ""

    def __init__(self, **given: Any) -> None:
        name = str(getattr(given.pop("name", None) or self.NAME, "value", self.NAME))
        super().__init__(name=name, **given)

    def __getattr__(self, key: str) -> Any:
        if key in self:
            return self[key]
        raise AttributeError(f"{type(self).__name__} has no value '{key}'")


class TimeColumn(dict[str, Any]):
    """Time column, and the format of its values if they are texts."""

    def __init__(self, column: Any, format: str | None = None) -> None:
        super().__init__(column=str(column), **({"format": format} if format else {}))


def _kind(class_name: str, name: str) -> type[ModelKind]:
    return type(class_name, (ModelKind,), {"NAME": name, "__doc__": f"The kind {name}."})


FullKind = _kind("FullKind", "FULL")
ViewKind = _kind("ViewKind", "VIEW")
SeedKind = _kind("SeedKind", "SEED")
EmbeddedKind = _kind("EmbeddedKind", "EMBEDDED")
ExternalKind = _kind("ExternalKind", "EXTERNAL")
ManagedKind = _kind("ManagedKind", "MANAGED")
CustomKind = _kind("CustomKind", "CUSTOM")
DbtCustomKind = _kind("DbtCustomKind", "DBT_CUSTOM")
IncrementalByTimeRangeKind = _kind("IncrementalByTimeRangeKind", "INCREMENTAL_BY_TIME_RANGE")
IncrementalByUniqueKeyKind = _kind("IncrementalByUniqueKeyKind", "INCREMENTAL_BY_UNIQUE_KEY")
IncrementalByPartitionKind = _kind("IncrementalByPartitionKind", "INCREMENTAL_BY_PARTITION")
IncrementalUnmanagedKind = _kind("IncrementalUnmanagedKind", "INCREMENTAL_UNMANAGED")
SCDType2ByTimeKind = _kind("SCDType2ByTimeKind", "SCD_TYPE_2_BY_TIME")
SCDType2ByColumnKind = _kind("SCDType2ByColumnKind", "SCD_TYPE_2_BY_COLUMN")


class CustomMaterialization:
    """Base class of SQLMesh's custom materializations.

    `NAME` is its name. `insert` writes rows through `self.adapter`, in one commit.
    """

    NAME = ""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter

    def __class_getitem__(cls, _: Any) -> type:
        return cls

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        note("materializations", vars(cls).get("NAME") or cls.__name__, cls)

    def insert(
        self,
        table_name: str,
        query_or_df: Any,
        model: Any,
        is_first_insert: bool,
        render_kwargs: dict[str, Any],
        **kwargs: Any,
    ) -> None:
        """Write the rows into the table."""
        raise NotImplementedError(f"{type(self).__name__} has no method 'insert'")

    def _replace_query_for_model(
        self, model: Any, name: str, query_or_df: Any, render_kwargs: Any = None, **kwargs: Any
    ) -> None:
        self.adapter.replace_query(name, query_or_df)

    @classmethod
    def write_rows(cls, rows: Any, target: Any, model: Any) -> None:
        """Write rows into a table.

        Args:
            rows: The rows, as a Spark DataFrame.
            target: The table for the rows, see `CustomTarget`.
        """
        times = {"start": target.interval.start, "end": target.interval.end}
        told = _Model(model, target.properties)
        cls(TargetAdapter(target)).insert(target.name, rows, told, target.anew, times)


class _Model:
    """Model with the attribute `custom_materialization_properties`, as in SQLMesh."""

    def __init__(self, model: Any, properties: Any) -> None:
        self._model = model
        self.custom_materialization_properties = dict(properties)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class TargetAdapter:
    """Methods of SQLMesh's engine adapters that write one table."""

    dialect = "spark"

    def __init__(self, target: Any) -> None:
        self._target = target

    @property
    def spark(self) -> Any:
        """The Spark session."""
        return self._target.spark

    def replace_query(self, table_name: Any, query_or_df: Any, *_: Any, **__: Any) -> None:
        """Replace all rows of the table."""
        from pyspark.sql.functions import lit

        self._writer(table_name, query_or_df).overwrite(lit(True))

    def insert_append(self, table_name: Any, query_or_df: Any, *_: Any, **__: Any) -> None:
        """Add rows to the table."""
        self._writer(table_name, query_or_df).append()

    def execute(self, expressions: Any, *_: Any, **__: Any) -> None:
        """Run one or more statements."""
        listed = expressions if isinstance(expressions, list | tuple) else [expressions]
        for one in listed:
            self.spark.sql(one.sql("spark") if hasattr(one, "sql") else str(one))

    def fetchdf(self, query: Any, *_: Any, **__: Any) -> Any:
        """Return a query's rows as a pandas DataFrame."""
        text = query.sql("spark") if hasattr(query, "sql") else str(query)
        return self.spark.sql(text).toPandas()

    def __getattr__(self, name: str) -> Any:
        raise ExecutionError(
            f"a materialization uses '{name}' of its adapter, which does not exist here",
            hint="it has replace_query, insert_append, execute, fetchdf and spark",
        )

    def _writer(self, table_name: Any, rows: Any) -> Any:
        if str(table_name) != self._target.name:
            raise ExecutionError(
                f"a materialization writes to {table_name}, and not to its target",
                hint="write to the table_name that insert() gets",
            )
        if not hasattr(rows, "selectExpr"):  # of pandas
            rows = self.spark.createDataFrame(rows)
        return self._target.writer(rows)
