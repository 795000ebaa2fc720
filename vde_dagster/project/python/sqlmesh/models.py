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
    """Make a Python function a model; with `is_sql`, the function returns SQL.

    SQLMesh's conventions apply. `end` is the last instant of the interval, variables are passed as
    keywords, and the context has SQLMesh's methods.
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
    """A kind with its properties, as a dictionary that `@model(kind=…)` accepts."""

    NAME = ""

    def __init__(self, **given: Any) -> None:
        name = str(getattr(given.pop("name", None) or self.NAME, "value", self.NAME))
        super().__init__(name=name, **given)

    def __getattr__(self, key: str) -> Any:
        if key in self:
            return self[key]
        raise AttributeError(f"{type(self).__name__} has no value '{key}'")


class TimeColumn(dict[str, Any]):
    """A time column, with a format if its values are texts."""

    def __init__(self, column: Any, format: str | None = None) -> None:
        super().__init__(column=str(column), **({"format": format} if format else {}))


def _kind_class(class_name: str, name: str) -> type[ModelKind]:
    return type(class_name, (ModelKind,), {"NAME": name, "__doc__": f"The kind {name}."})


FullKind = _kind_class("FullKind", "FULL")
ViewKind = _kind_class("ViewKind", "VIEW")
SeedKind = _kind_class("SeedKind", "SEED")
EmbeddedKind = _kind_class("EmbeddedKind", "EMBEDDED")
ExternalKind = _kind_class("ExternalKind", "EXTERNAL")
ManagedKind = _kind_class("ManagedKind", "MANAGED")
CustomKind = _kind_class("CustomKind", "CUSTOM")
DbtCustomKind = _kind_class("DbtCustomKind", "DBT_CUSTOM")
IncrementalByTimeRangeKind = _kind_class("IncrementalByTimeRangeKind", "INCREMENTAL_BY_TIME_RANGE")
IncrementalByUniqueKeyKind = _kind_class("IncrementalByUniqueKeyKind", "INCREMENTAL_BY_UNIQUE_KEY")
IncrementalByPartitionKind = _kind_class("IncrementalByPartitionKind", "INCREMENTAL_BY_PARTITION")
IncrementalUnmanagedKind = _kind_class("IncrementalUnmanagedKind", "INCREMENTAL_UNMANAGED")
SCDType2ByTimeKind = _kind_class("SCDType2ByTimeKind", "SCD_TYPE_2_BY_TIME")
SCDType2ByColumnKind = _kind_class("SCDType2ByColumnKind", "SCD_TYPE_2_BY_COLUMN")


class CustomMaterialization:
    """Base class for a project's writers of CUSTOM tables, as in SQLMesh.

    `NAME` is the writer's name. `insert` writes rows through `self.adapter`, in one commit.
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
        """Write the rows into the table; subclasses must define this method."""
        raise NotImplementedError(f"{type(self).__name__} has no method 'insert'")

    def _replace_query_for_model(
        self, model: Any, name: str, query_or_df: Any, render_kwargs: Any = None, **kwargs: Any
    ) -> None:
        self.adapter.replace_query(name, query_or_df)

    @classmethod
    def write_rows(cls, rows: Any, target: Any, model: Any) -> None:
        """Write the rows of a Spark DataFrame into the table of a `CustomTarget`."""
        times = {"start": target.interval.start, "end": target.interval.end}
        with_properties = _ModelWithProperties(model, target.properties)
        cls(TargetAdapter(target)).insert(target.name, rows, with_properties, target.anew, times)


class _ModelWithProperties:
    def __init__(self, model: Any, properties: Any) -> None:
        self._model = model
        self.custom_materialization_properties = dict(properties)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class TargetAdapter:
    """The methods of SQLMesh's engine adapter that a writer of a CUSTOM table may call."""

    dialect = "spark"

    def __init__(self, target: Any) -> None:
        self._target = target

    @property
    def spark(self) -> Any:
        return self._target.spark

    def replace_query(self, table_name: Any, query_or_df: Any, *_: Any, **__: Any) -> None:
        """Replace all rows of the table."""
        from pyspark.sql.functions import lit

        self._writer(table_name, query_or_df).overwrite(lit(True))

    def insert_append(self, table_name: Any, query_or_df: Any, *_: Any, **__: Any) -> None:
        self._writer(table_name, query_or_df).append()

    def execute(self, expressions: Any, *_: Any, **__: Any) -> None:
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
            hint="the adapter has replace_query, insert_append, execute, fetchdf and spark",
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
