"""Queries of an environment or a version of one, and reads of a model without an engine.

No view is read, as views are those of the current version. Model names stand for what they were:
tables as of their pins, and queries of models without a table over those. External tables have no
pins; that they are read as they are now is part of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError, UsageError
from vde_dagster.execution.pinned_reads import PinnedVersion
from vde_dagster.execution.published_version import (
    named_environment,
    published_version,
)
from vde_dagster.planning.environments.environment import (
    PRODUCTION,
    Environment,
    environment_name,
)
from vde_dagster.planning.rendering.render import replace_tables
from vde_dagster.planning.tables.table import ExternalTable, TableRef, external_table
from vde_dagster.project.table_names import TableNames

if TYPE_CHECKING:
    import pyarrow as pa

    from vde_dagster.execution.handles import Handles


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The answer to a query.

    Args:
        columns: (name, Spark SQL type) in order.
        publication_id: The publication that the whole answer was read from, which made `version`.
        read_live: External tables that were read as they are now, though the version is past.
    """

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]
    publication_id: str
    version: int
    read_live: tuple[str, ...] = ()


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What an engine answered to a query.

    Args:
        shown: The version of the environment that the whole answer was read from.
        read_live: As in `QueryResult`.
    """

    value: T
    shown: Environment
    read_live: tuple[str, ...]


def _externals_of(handles: Handles, version: Environment) -> dict[ModelName, ExternalTable]:
    """Return the external tables that an environment's models read: they have no views."""
    ids = [entry.snapshot_id for entry in version.entries.values() if entry.table_id is None]
    models = (one.model for one in handles.store.snapshots.load(ids).values())
    return {model.name: external_table(model) for model in models if model.kind.is_external}


_OF_FILES = re.compile(
    r"NotFound|No such file|does not exist|Parquet|Avro|ORC|footer|EOF|end of|"
    r"corrupt|Failed to (open|read)|RuntimeIO|Cannot parse|JsonParse|metadata",
    re.IGNORECASE,
)


def is_of_files(error: BaseException) -> bool:
    """Say whether an error may come of a file that is missing or damaged."""
    cause: BaseException | None = error
    while cause is not None and not _OF_FILES.search(str(cause)):
        cause = cause.__cause__
    return cause is not None


ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Queries:
    """Queries of environments and versions, and reads of models without an engine."""

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
        """Run a query in which model names mean the environment's views, or what they once were.

        Args:
            environment: The environment; `prod@41` and `prod@2026-11-01T06:00` mean a version of
                it, with the definitions and the data that it was published with.
            limit: The most rows to return.
            raw: Whether to leave out the rules of `query_rules`, which keep a query to models;
                for who may do on this machine whatever Spark may do.
            at: A time (UTC): the version that was current then.

        Raises:
            UsageError: There is no such environment, or the query cannot be read or does more
                than to read models, or the data of the version are not known or gone.
        """
        answer = self._ask(
            environment, sql, at, raw, lambda query: self.handles.engine().query(query, limit)
        )
        columns, rows = answer.value
        shown = answer.shown
        return QueryResult(
            tuple(columns), tuple(rows), shown.publication_id, shown.version, answer.read_live
        )

    def run_arrow(
        self, environment: str, sql: str, limit: int | None = None, at: str | None = None
    ) -> Answer[pa.Table]:
        """Run a query as `run` does; the value is its rows as Arrow has them, instants in UTC.

        Raises:
            UsageError: As `run`.
        """
        engine = self.handles.engine
        return self._ask(
            environment, sql, at, False, lambda query: engine().query_arrow(query, limit)
        )

    def render(self, environment: str, sql: str, at: str | None = None) -> str:
        """Return a query as Spark would get it from `run`, without an engine.

        Raises:
            UsageError: As `run`.
        """
        return self._ask(environment, sql, at, False, lambda query: query).value

    def _ask(
        self, environment: str, sql: str, at: str | None, raw: bool, ask: Callable[[str], T]
    ) -> Answer[T]:
        version = published_version(self.handles.store, environment, at)
        if version is not None:
            return self._of_version(version, sql, raw, ask)
        return self._of_views(environment_name(environment), sql, raw, ask)

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
        """Read a published model into memory, without an engine; see `read_rows`.

        Raises:
            UsageError: There is no such environment, version, model or column, the condition does
                not fit, the model has no table, or what the version showed is gone.
        """
        from vde_dagster.execution.query.read_rows import read_rows

        read = read_rows(
            self.handles, environment, model, columns, where=where, order_by=order_by, limit=limit
        )
        return read.rows

    def _of_views(
        self, environment: str, sql: str, raw: bool, ask: Callable[[str], T]
    ) -> Answer[T]:
        """Run a query over an environment's views.

        Spark loads a query's views one by one, so a query can straddle a publication. The
        publication's id is compared before and after, and the query is run again when it moved.
        """
        for _ in range(ATTEMPTS):
            version = named_environment(self.handles, environment)
            if not self.handles.lakehouse.catalog.form.keeps_pointers:
                return self._of_version(version, sql, raw, ask)
            answer = self._of_version(version, sql, raw, ask, views=True)
            after = self.handles.store.environments.get(environment)
            if after is not None and after.publication_id == version.publication_id:
                return answer
        raise ConflictError(
            f"environment '{environment}' was published {ATTEMPTS} times while the query ran",
            hint="query again",
        )

    def _of_version(
        self,
        version: Environment,
        sql: str,
        raw: bool,
        ask: Callable[[str], T],
        *,
        views: bool = False,
    ) -> Answer[T]:
        """Run a query over a version's tables at their pins, or over the environment's views."""
        from vde_dagster.execution.changes.reading import expand_changes
        from vde_dagster.execution.query.query_rules import check_query

        handles, store = self.handles, self.handles.store
        catalog = handles.settings.catalog
        sql, changes = expand_changes(handles, version, sql)
        externals = _externals_of(handles, version)
        catalogs = {one.catalog.lower(): one.catalog for one in externals.values() if one.catalog}
        names = TableNames(catalog, "default", catalogs)
        production = store.environments.get(PRODUCTION) if views else None
        elsewhere = production.entries.keys() - version.entries.keys() if production else set()
        if not raw:
            # What production alone has is told apart below, with a message of its own.
            check_query(sql, version.entries.keys() | elsewhere | changes.keys(), names)
        reader = PinnedVersion(handles, version)

        def relation_of(name: ModelName) -> str | None:
            if name in elsewhere:
                # Left as it is, the name would silently mean production's view.
                raise UsageError(
                    f"environment '{version.name}' has no model {name}, only production has",
                    hint=f"query '{PRODUCTION}', or plan '{version.name}' with the model",
                )
            if name in changes:
                return f"SELECT * FROM {changes[name]}"
            if not views or name not in version.entries:
                return reader.relation(name)
            external = externals.get(name)
            own = external.quoted(catalog) if external else version.views.quoted(name, catalog)
            return f"SELECT * FROM {own}"

        def may_have_failed(error: Exception) -> set[TableRef]:
            if not is_of_files(error):
                return set()
            tables = store.tables.load(version.tables) if views else reader.tables
            shown = handles.lakehouse.published_views(version.name) if views else ()
            return {*(table.ref for table in tables.values()), *shown}

        rendered = _rendered(sql, relation_of, names, raw)
        with handles.lakehouse.naming_damage(may_have_failed):
            value = ask(rendered)
        return Answer(value, version, tuple(sorted(map(str, reader.live))))


def _rendered(
    sql: str, relation_of: Callable[[ModelName], str | None], names: TableNames, raw: bool
) -> str:
    """Return a query as Spark gets it; what SQLGlot cannot read is its author's mistake."""
    from sqlglot.errors import SqlglotError

    from vde_dagster.execution.query.query_rules import refuse_substitution

    try:
        rendered = replace_tables(sql, relation_of, names)
    except SqlglotError as error:
        raise UsageError(
            f"the query cannot be read: {str(error).splitlines()[0]}",
            hint="write it in Spark SQL",
        ) from error
    if not raw:
        refuse_substitution(rendered)  # What was escaped in a string is written out here.
    return rendered
