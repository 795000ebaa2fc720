"""The columns that a metric reads, found by the lineage of the SQL that MetricFlow writes.

The analyzed SQL is grouped only by the metric's time. So a metric reads the columns of its
measures, conditions and time, and of the joins that these need. It does not read a dimension
only because a question could group by it. A saved query also reads the dimensions that it groups
by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from sqlglot import exp
from sqlglot.errors import SqlglotError

from vde_dagster.api.errors import ProjectError, UsageError
from vde_dagster.api.models import Exposure
from vde_dagster.api.sources import TableNames
from vde_dagster.api.sql import read_query
from vde_dagster.api.values import quote
from vde_dagster.plugins.metrics.definitions import Definitions, read_definitions
from vde_dagster.plugins.metrics.layer import TIME, Question, SemanticLayer

_cache: dict[object, Definitions | ProjectError] = {}


def file_exposures(
    path: Path, texts: Mapping[Path, str], names: TableNames
) -> tuple[Exposure, ...]:
    """Return the metrics and saved queries of a file, with the columns that they read.

    Args:
        texts: The texts of all files of metrics, by path.

    Raises:
        ProjectError: This file has mistakes.
    """
    found = _parse_cached(texts, names)
    if isinstance(found, ProjectError):
        own = [one for one in found.mistakes if one.location is None or one.location.path == path]
        if own:
            raise ProjectError.combine(own)
        return ()
    layer = SemanticLayer(found)
    return tuple(metric_exposures(layer, path))


def metric_exposures(layer: SemanticLayer, path: Path | None = None) -> Iterator[Exposure]:
    """Yield the metrics and saved queries of a semantic layer, with the columns that they read.

    Args:
        path: Yield only definitions in this file.

    Raises:
        ProjectError: MetricFlow refuses to write the SQL of a metric or query.
    """
    definitions = layer.definitions
    for name in (*layer.metrics, *layer.saved_queries):
        place = definitions.places[name]
        if path is not None and place.path != path:
            continue
        try:
            sql = _metric_sql(layer, name)
            read = read_metric_columns(layer, name, sql)
        except UsageError as error:
            raise ProjectError(error.message, hint=error.hint, location=place) from error
        named = ((*definitions.models[table], column) for table, column in _sort_columns(read))
        reads = tuple((model, column, at) for model, at, column in named)
        described = layer.metrics.get(name) or layer.saved_queries[name]
        yield Exposure(name, None, None, reads, place, "metric", described.description, sql)


def _metric_sql(layer: SemanticLayer, name: str) -> str:
    has_time = name in layer.metrics and TIME in layer.group_bys([name])
    return layer.sql(Question((name,), (TIME,) if has_time else ()))


def read_metric_columns(layer: SemanticLayer, name: str, sql: str) -> set[tuple[str, str | None]]:
    """Return (quoted model, column) for each column that a metric's SQL reads.

    A metric that may read all columns of a model has None as the column.
    """
    from vde_dagster.api.lineage import analyze

    models = layer.definitions.models
    tables = {str(model): table for table, (model, _) in models.items()}
    try:
        named = _columns_by_table(sql)
        schema = {
            str(models[table][0]): dict.fromkeys(sorted(columns), "UNKNOWN")
            for table, columns in named.items()
        }
        found = analyze(sql, schema, query_owner=f"the metric {name}")
    # The SQL may have another dialect, for example.
    except (SqlglotError, ProjectError):
        return {(table, None) for table in models if table in sql}
    if found.version.opaque is not None:
        return {(table, column) for table, columns in named.items() for column in columns}
    lineage = found.lineage
    made = [one for each in lineage.columns.values() for one in each]
    decides = [one for each in lineage.conditions.values() for one in each]
    sources = [(one.table, one.column) for one in made]
    sources += [(one.table, one.column) for one in (*decides, *lineage.rows)]
    return {(tables[table], column.lower()) for table, column in sources}


def _sort_columns(read: set[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
    return sorted(read, key=lambda one: (one[0], one[1] or ""))


def _columns_by_table(sql: str) -> dict[str, set[str]]:
    # A column without a table's name counts for all tables. MetricFlow writes such columns only in
    # queries of one table.
    from sqlglot.optimizer.scope import traverse_scope

    found: dict[str, set[str]] = {}
    for scope in traverse_scope(read_query(sql).tree):
        for alias, source in scope.sources.items():
            if not isinstance(source, exp.Table):
                continue
            own = found.setdefault(quote(source.db.lower(), source.name.lower()), set())
            for column in scope.columns:
                parts = [part.name.lower() for part in column.parts]
                if len(parts) > 1 and parts[0] == alias.lower():
                    own.add(parts[1])
                elif len(parts) == 1 or parts[0] not in map(str.lower, scope.sources):
                    own.add(parts[0])  # With more parts it is a field of the column.
    return found


def _parse_cached(texts: Mapping[Path, str], names: TableNames) -> Definitions | ProjectError:
    """Parse files of metrics, with a cache. Mistakes are returned as an error, not raised."""
    key = (tuple(sorted((path.as_posix(), text) for path, text in texts.items())), repr(names))
    if key not in _cache:
        _cache.clear()
        try:
            _cache[key] = read_definitions(dict(sorted(texts.items())), names)
        except ProjectError as error:
            _cache[key] = error
    return _cache[key]
