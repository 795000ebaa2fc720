"""A model and a project as the project's own rules of the linter see them, in SQLMesh's words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.settings import Settings
from vde_dagster.project.sqlmesh_compat.annotations import Context, Model

if TYPE_CHECKING:
    from sqlglot import exp


class KindView:
    """A kind, as rules ask it: `name`, `is_full`, `is_incremental_by_time_range`, `time_column` …

    Args:
        snapshot: Its model's snapshot.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._kind = snapshot.model.kind
        self.name = self._kind.name
        self.is_symbolic = self._kind.is_external or not self._kind.is_shown
        self.is_incremental = self.name.startswith("INCREMENTAL")
        self.is_materialized = snapshot.has_table

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name.startswith("is_"):
            return name[3:].upper() == self.name
        return getattr(self._kind, name)


class ModelView(Model):
    """A model as rules ask it: SQLMesh's names for what ours says, and all of ours.

    Args:
        snapshot: The model's snapshot.
        settings: The project's settings.
    """

    def __init__(self, snapshot: Snapshot, settings: Settings) -> None:
        self._snapshot = snapshot
        self._settings = settings
        model = snapshot.model
        self.name = str(model.name)
        self.fqn = str(model.name)
        self.view_name = model.name.name
        self.schema_name = model.name.namespace
        self.kind = KindView(snapshot)
        self.depends_on = {str(name) for name in model.depends_on}
        self.tags = list(model.tags)
        self.audits = [(audit.name, dict(audit.arguments)) for audit in model.audits]
        self.columns = {column.name: column.type for column in snapshot.columns}
        self.column_descriptions = {
            column.name: column.description for column in snapshot.columns if column.description
        }
        self.dialect = "spark"
        self.is_sql = model.query is not None
        self.is_python = model.python is not None
        self.is_seed = not (self.is_sql or self.is_python)
        self._path = self.path = settings.root / Path(model.location.path)

    @cached_property
    def query(self) -> exp.Expr | None:
        """Its query as SQLGlot's tree."""
        from sqlglot import parse_one

        query = self._snapshot.model.query
        return None if query is None else parse_one(query, dialect="spark")

    def render_query(self, **given: Any) -> exp.Expr | None:
        """Return its query with all macros expanded, which it always is here."""
        return self.query

    @cached_property
    def columns_to_types(self) -> dict[str, exp.DataType]:
        """The types of its columns."""
        from sqlglot import exp

        return {
            name: exp.DataType.build(type_ or "UNKNOWN", dialect="spark")
            for name, type_ in self.columns.items()
        }

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._snapshot.model, name)


class ContextView(Context):
    """The project around a model; notes that it was asked, as its answers change with others.

    Args:
        settings: The project's settings.
        snapshots: All models.
        tested: Those that have unit tests.
    """

    def __init__(
        self,
        settings: Settings,
        snapshots: Mapping[ModelName, Snapshot],
        tested: Collection[ModelName],
    ) -> None:
        self.asked = 0
        self.path = settings.root
        self._settings = settings
        self._snapshots = snapshots
        self._tested = tested

    @property
    def models(self) -> dict[str, ModelView]:
        """All models by name."""
        self.asked += 1
        return dict(self._views())

    @property
    def models_with_tests(self) -> set[str]:
        """The names of models that have unit tests."""
        self.asked += 1
        return {str(name) for name in self._tested}

    def get_model(self, name: str, raise_if_missing: bool = False) -> ModelView | None:
        """Return a model by its name, or None.

        Raises:
            KeyError: There is none, and that is to be raised.
        """
        self.asked += 1
        text = str(name).replace('"', "").replace("`", "").lower()
        for key, snapshot in self._snapshots.items():
            if str(key) == ".".join(text.split(".")[-2:]):
                return ModelView(snapshot, self._settings)
        if raise_if_missing:
            raise KeyError(name)
        return None

    def _views(self) -> Iterator[tuple[str, ModelView]]:
        for name, snapshot in self._snapshots.items():
            yield str(name), ModelView(snapshot, self._settings)
