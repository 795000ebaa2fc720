"""Queries of an environment or one of its versions, and reads of a model without an engine.

Views show only the current version. In a query of another version, the name of a model refers to
the model's pinned table or, if it has no table, to its query over pinned tables. External tables
are not pinned; the result lists those that were read in their current state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sqlglot.errors import SqlglotError

from vde_dagster.base.names import ModelName, quote
from vde_dagster.errors import ConflictError, UsageError
from vde_dagster.execution.pinned_reads import PinnedVersion
from vde_dagster.execution.published_version import named_environment, published_version
from vde_dagster.planning.environments.environment import PRODUCTION, Environment, environment_name
from vde_dagster.planning.rendering.render import replace_tables
from vde_dagster.planning.tables.table import ExternalTable, TableRef, external_table
from vde_dagster.project.table_names import TableNames

if TYPE_CHECKING:
    import pyarrow as pa

    from vde_dagster.execution.handles import Handles
    from vde_dagster.execution.query.read_rows import TableRows


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Rows that a query of an environment returned.

    Args:
        columns: (name, Spark SQL type) in order.
        publication_id: Publication of `version`. The whole result was read from this version.
        read_live: External tables that were read in their current state, not as of the version.
    """

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]
    publication_id: str
    version: int
    read_live: tuple[str, ...] = ()


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class VersionedResult(Generic[T]):
    """Result of a query, with the version of the environment that the query read.

    Args:
        shown: The version that the query read.
        read_live: External tables that were read in their current state.
    """

    value: T
    shown: Environment
    read_live: tuple[str, ...]


def _external_tables(handles: Handles, version: Environment) -> dict[ModelName, ExternalTable]:
    ids = [entry.snapshot_id for entry in version.entries.values() if entry.table_id is None]
    models = (one.model for one in handles.store.snapshots.load(ids).values())
    return {model.name: external_table(model) for model in models if model.kind.is_external}


_FILE_ERRORS = re.compile(
    r"NotFound|No such file|does not exist|Parquet|Avro|ORC|footer|EOF|end of|"
    r"corrupt|Failed to (open|read)|RuntimeIO|Cannot parse|JsonParse|metadata",
    re.IGNORECASE,
)


def is_file_error(error: BaseException) -> bool:
    """Check whether a missing or damaged file may have caused an error."""
    cause: BaseException | None = error
    while cause is not None and not _FILE_ERRORS.search(str(cause)):
        cause = cause.__cause__
    return cause is not None


ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class _Request(Generic[T]):
    sql: str
    raw: bool
    execute: Callable[[str], T]


@dataclass(frozen=True, slots=True)
class Queries:
    handles: Handles

    def run(
        self,
        environment: str,
        sql: str,
        limit: int | None = None,
        *,
        raw: bool = False,
        at: str | None = None,
    ) -> QueryResult:
        """Run a query on Spark, over an environment's views or over one of its versions.

        Args:
            environment: The environment. `prod@41` and `prod@2026-11-01T06:00` refer to a version
                with its definitions and data.
            raw: Whether to skip the checks of `query_rules`. Allow this only to users with all
                rights that Spark has on this machine.
            at: A time (UTC), for the version current at that time.

        Raises:
            UsageError: The environment does not exist, the query is invalid or does more than read
                models, or the version's data is unknown or gone.
        """
        engine = self.handles.engine
        request = _Request(sql, raw, lambda query: engine().query(query, limit))
        result = self._run_query(environment, at, request, starts_engine=True)
        columns, rows = result.value
        shown = result.shown
        return QueryResult(
            tuple(columns), tuple(rows), shown.publication_id, shown.version, result.read_live
        )

    def run_arrow(
        self, environment: str, sql: str, limit: int | None = None
    ) -> VersionedResult[pa.Table]:
        """Run a query like `run`, and return an Arrow table with instants in UTC."""
        engine = self.handles.engine
        request = _Request(sql, False, lambda query: engine().query_arrow(query, limit))
        return self._run_query(environment, None, request)

    def render(self, environment: str, sql: str, at: str | None = None) -> str:
        """Return the Spark SQL that `run` would execute for a query, without running it."""
        return self._run_query(environment, at, _Request(sql, False, lambda query: query)).value

    def _run_query(
        self,
        environment: str,
        at: str | None,
        request: _Request[T],
        *,
        starts_engine: bool = False,
    ) -> VersionedResult[T]:
        version = published_version(self.handles.store, environment, at)
        if starts_engine and self.handles.process_ends:  # It starts while the query is read.
            if version is None:
                named_environment(self.handles, environment)
            self.handles.start_engine_in_background(writes=False)
        if version is not None:
            return self._query_version(version, request)
        return self._query_views(environment_name(environment), request)

    def run_on_tables(
        self, sql: str, tables: Collection[ModelName], limit: int | None = None
    ) -> tuple[Sequence[tuple[str, str]], Sequence[Sequence[Any]]]:
        """Run a query of tables and views in the catalog's current state, without an environment.

        Args:
            tables: Names that the query may read.

        Returns:
            Columns as (name, Spark SQL type), and rows.

        Raises:
            UsageError: The text is not a query, or reads another table.
            ExecutionError: The query fails on Spark.
        """
        from vde_dagster.execution.query.query_rules import check_query

        catalog = self.handles.settings.catalog
        names = TableNames(catalog, "default", {})
        check_query(sql, tables, names)

        def relation(name: ModelName) -> str:
            return f"SELECT * FROM {quote(catalog, *name)}"

        return self.handles.engine().query(
            _render_for_spark(sql, relation, names, raw=False), limit
        )

    def read(
        self,
        environment: str,
        model: str,
        columns: Sequence[str] = (),
        *,
        where: str | None = None,
        order_by: Sequence[str] = (),
        limit: int | None = None,
    ) -> pa.Table:
        """Read the rows of a published model into memory, without Spark. See `read_rows`.

        Raises:
            UsageError: The environment, version, model or column does not exist; the condition is
                invalid, or has a value that does not fit its column's type; the model has no table;
                or the version's data is gone.
        """
        from vde_dagster.execution.query.read_rows import read_rows

        read = read_rows(
            self.handles, environment, model, columns, where=where, order_by=order_by, limit=limit
        )
        return read.rows

    @contextmanager
    def open_rows(self, version: Environment, model: ModelName) -> Iterator[TableRows]:
        """Open a model's rows in a version of an environment, to read them in the block.

        Raises:
            UsageError: The version does not contain the model, the model has no table, or the
                version's data is gone.
        """
        from vde_dagster.execution.query.read_rows import open_reading

        with open_reading(self.handles, version, model, pinned=True) as reading:
            yield reading.to_rows()

    @staticmethod
    def python_rows(rows: pa.Table) -> list[dict[str, Any]]:
        from vde_dagster.lakehouse.rows.row_values import python_rows

        return python_rows(rows)

    def _query_views(self, environment: str, request: _Request[T]) -> VersionedResult[T]:
        # Spark loads a query's views one by one, so a publication can happen in between. The
        # publication's id is compared before and after, and the query runs again if it has changed.
        for _ in range(ATTEMPTS):
            version = named_environment(self.handles, environment)
            if not self.handles.lakehouse.catalog.form.keeps_pointers:
                return self._query_version(version, request)
            result = self._query_version(version, request, views=True)
            after = self.handles.store.environments.get(environment)
            if after is not None and after.publication_id == version.publication_id:
                return result
        raise ConflictError(
            f"environment '{environment}' was published {ATTEMPTS} times while the query ran",
            hint="run the query again",
        )

    def _query_version(
        self, version: Environment, request: _Request[T], *, views: bool = False
    ) -> VersionedResult[T]:
        from vde_dagster.execution.changes.reading import expand_changes
        from vde_dagster.execution.query.query_rules import check_query

        handles, store = self.handles, self.handles.store
        catalog = handles.settings.catalog
        sql, changes = expand_changes(handles, version, request.sql)
        externals = _external_tables(handles, version)
        catalogs = {one.catalog.lower(): one.catalog for one in externals.values() if one.catalog}
        names = TableNames(catalog, "default", catalogs)
        production = store.environments.get(PRODUCTION) if views else None
        elsewhere = production.entries.keys() - version.entries.keys() if production else set()
        if not request.raw:
            # Models that only production has are handled below, with a separate message.
            check_query(sql, version.entries.keys() | elsewhere | changes.keys(), names)
        reader = PinnedVersion(handles, version)

        def find_relation(name: ModelName) -> str | None:
            if name in elsewhere:
                # Otherwise the name would silently refer to production's view.
                raise UsageError(
                    f"only production has the model {name}, not environment '{version.name}'",
                    hint=f"query '{PRODUCTION}', or add the model: vde apply {version.name}",
                )
            if name in changes:
                return f"SELECT * FROM {changes[name]}"
            if not views or name not in version.entries:
                return reader.relation(name)
            external = externals.get(name)
            own = external.quoted(catalog) if external else version.views.quoted(name, catalog)
            return f"SELECT * FROM {own}"

        def may_have_failed(error: Exception) -> set[TableRef]:
            if not is_file_error(error):
                return set()
            tables = store.tables.load(version.tables) if views else reader.tables
            shown = handles.lakehouse.published_views(version.name) if views else ()
            return {*(table.ref for table in tables.values()), *shown}

        rendered = _render_for_spark(sql, find_relation, names, request.raw)
        with handles.lakehouse.naming_damage(may_have_failed):
            value = request.execute(rendered)
        return VersionedResult(value, version, tuple(sorted(map(str, reader.live))))


def _render_for_spark(
    sql: str, find_relation: Callable[[ModelName], str | None], names: TableNames, raw: bool
) -> str:
    # A text that SQLGlot cannot parse is refused.
    from vde_dagster.execution.query.query_rules import refuse_substitution

    try:
        rendered = replace_tables(sql, find_relation, names)
    except SqlglotError as error:
        raise UsageError(
            f"the query is invalid: {str(error).splitlines()[0]}", hint="write it in Spark SQL"
        ) from error
    if not raw:
        refuse_substitution(rendered)  # Escapes in strings are resolved here.
    return rendered
