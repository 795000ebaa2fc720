"""The checks of a model: Spark's grammar, filling, time columns and merges."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import cache

from sqlglot import exp

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName, quote
from vde_dagster.base.texts import listed
from vde_dagster.errors import ExecutionError
from vde_dagster.planning.checks import names
from vde_dagster.planning.checks.diagnostics import (
    NAMES,
    CheckedModel,
    check_double_quotes,
    place_in_header,
    query_problems,
)
from vde_dagster.planning.checks.translated import check_statement_operators
from vde_dagster.planning.intervals.cadence import Cadence, IntervalUnit
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.intervals.time_column import TimeColumn
from vde_dagster.planning.snapshots.snapshot import Snapshot, column_types
from vde_dagster.planning.tables.pinned_reads import Input
from vde_dagster.project.kinds import Full
from vde_dagster.project.macros.variables import (
    find_time_variable,
    find_variables,
    substitute_time_variables,
    time_variable_values,
)
from vde_dagster.project.model import Model
from vde_dagster.semantics.errors import SemanticError, mistake_offset
from vde_dagster.sql.alignment import find_in_query
from vde_dagster.sql.expressions import read_expression
from vde_dagster.sql.grammar.spark import Refusal, find_spark_refusal
from vde_dagster.sql.outline import replace_qualify
from vde_dagster.sql.reading import call_name, read_query

_VALUES = time_variable_values(*[datetime(2024, 1, n, tzinfo=timezone.utc) for n in (1, 2, 3)])
_FEW = 6
_LAST = re.compile(r"(?:\w+|\W)\s*$")
_TYPES = frozenset({"STRING", "DECIMAL", "SMALLINT"})


def check_spark_grammar(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    model = known.model
    if model.query is not None:
        sent, refusal = _refusal(model.query)
        if refusal is not None:
            end = _LAST.search(model.query)
            offset = find_in_query(model.query, sent, refusal.start, refusal.end)
            offset = end.start() if end and not refusal.text else offset
            what = f"{model.name}: {_message(sent, refusal)}"
            yield Problem(what, _hint(refusal), model.place(offset))
    for audit in model.audits:
        sent, refusal = _refusal(audit.query.replace("@this_model", quote(*model.name)))
        if refusal is not None:
            what = f"{model.name}: audit {audit.name}: {_message(sent, refusal)}"
            yield Problem(what, _hint(refusal), place_in_header(model, "audits", audit.name))


def _refusal(query: str) -> tuple[str, Refusal | None]:
    """Render a query for Spark, and find where Spark's grammar rejects it."""
    sent = replace_qualify(substitute_time_variables(query, _VALUES))
    return sent, find_spark_refusal(sent)


def _message(sent: str, refusal: Refusal) -> str:
    before = " ".join(sent[: refusal.start].split()[-3:])
    after = f" after `{before}`" if before else ""
    if not refusal.text:
        return f"Spark's grammar does not allow the end of the query here,{after}"
    return f"Spark's grammar does not allow `{refusal.text}` here{',' if after else ''}{after}"


def _hint(refusal: Refusal) -> str:
    if refusal.text.startswith('"'):
        return "Spark reads these quotes as a text; quote names with backquotes: `name`"
    if set(refusal.expected) >= _TYPES:
        return "Spark's types are STRING, INT, DECIMAL(10, 2) and others of its SQL reference"
    if 0 < len(refusal.expected) <= _FEW:
        return f"Spark expects {' or '.join(refusal.expected)}"
    return "See Spark's SQL syntax; for another dialect, write dialect in the header"


_ASKED = re.compile(r"(?<![(,'\"])(?<!, )@\{?start_(date|ds|dt|dtntz|ts|tstz)\b", re.IGNORECASE)
"""A variable for the start of an interval, outside of a call's arguments."""
_PARTITION = re.compile(r"\s*(?:(\w+)\s*\()?\s*`?(\w+)`?")
_LASTING = {
    **dict.fromkeys(("year", "years"), IntervalUnit.YEAR),
    **dict.fromkeys(("month", "months"), IntervalUnit.MONTH),
    **dict.fromkeys(("day", "days", "date"), IntervalUnit.DAY),
    **dict.fromkeys(("hour", "hours", "date_hour"), IntervalUnit.HOUR),
}


def check_self_read(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report a model that is rebuilt as a whole and reads itself."""
    model = known.model
    if model.query is None or model.kind.by_intervals:
        return
    if model.name.name.lower() not in model.query.lower():
        return

    for table in read_query(model.query).tables:
        parts = tuple(part.name.lower() for part in table.parts)
        if parts == (model.name.namespace.lower(), model.name.name.lower()):
            start = table.parts[-1].meta.get("start")
            yield Problem(
                f"{model.name} is of kind {model.kind.name} and reads itself",
                "read its source models instead, or choose an incremental kind",
                model.place(start),
            )
            return


def check_interval_filter(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report a query that reads all rows of its parents for each interval."""
    model = known.model
    column = model.kind.interval_column
    if model.query is None or column is None or not model.depends_on:
        return
    if _has_interval(model) or any(_has_interval(parent.model) for parent in _inlined(parents)):
        return
    from vde_dagster.semantics.checks.interval_filters import write_interval_filter

    types = {output.name.lower(): output.type for output in known.columns or ()}
    condition = write_interval_filter(column.name, types.get(column.name.lower()), column.format)
    yield Problem(
        f"{model.name} is filled by intervals, but its query does not filter by "
        "interval: every interval reads all rows of its parents",
        f"add WHERE {condition}, on a column of a parent",
        place_in_header(model, "kind"),
        certain=False,
    )


def check_view_variables(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report a view that uses an interval or the time of a run."""
    model = known.model
    if model.query is None or model.kind.owns_table or not model.kind.is_shown:
        return
    embedded = [one.model for one in _inlined(parents) if not one.model.kind.is_shown]
    for one in (model, *embedded):
        query = one.query or ""
        found = find_time_variable(query)
        if found is None:
            continue
        variable = query[slice(*found)]
        through = f" through {one.name}" if one is not model else ""
        yield Problem(
            f"{model.name} is of kind {model.kind.name} and uses {variable}{through}: a view "
            "is never filled, so it has no interval and no execution time",
            "move the condition to the models that read it, use current_date() or "
            "current_timestamp(), or choose a kind with a table",
            model.place(found[0]) if one is model else place_in_header(model, "kind"),
        )
        return


def check_partition_length(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report a model whose intervals are shorter than the partitions that a fill replaces."""
    # A query that reads more than its interval is correct, for example one with `@start_date` in an
    # hourly model. A query that computes its range (`date_trunc('MM', @start_date)`) may be
    # correct.
    model = known.model
    if model.query is None or not model.kind.by_partitions:
        return
    types = {column.name.lower(): (column.type or "").upper() for column in known.columns or ()}
    steps = [_step(text, types) for text in model.partitioned_by]
    lasting = [step for step in steps if step is not None]
    unit = Cadence.of(model).unit
    asked = [
        IntervalUnit.DAY if name.lower() in ("date", "ds") else IntervalUnit.FIVE_MINUTE
        for name in _ASKED.findall(model.query)
    ]
    if not lasting or not asked:
        return
    shortest = min(lasting, key=lambda one: one.value)
    if max(unit.value, min(one.value for one in asked)) >= shortest.value:
        return
    part, whole = unit.text, shortest.text
    yield Problem(
        f"{model.name} is filled by the {part}, and each fill replaces its whole partition, a "
        f"{whole} ({', '.join(model.partitioned_by)}): rows of the rest of the {whole} are lost",
        f"fill it by the {whole} (cron, interval_unit), or partition it by the {part}; or let the "
        f"query read the whole {whole}",
        place_in_header(model, "partitioned_by"),
        certain=None not in steps,
    )


def _step(text: str, types: Mapping[str, str]) -> IntervalUnit | None:
    """Return the length of a partition: `days(at)` -> a day; None if it is not known."""
    match = _PARTITION.match(text)
    transform, column = (match[1] or "", match[2]) if match else ("", "")
    if transform.lower() in _LASTING:
        return _LASTING[transform.lower()]
    return IntervalUnit.DAY if not transform and types.get(column.lower()) == "DATE" else None


def check_parents_by_commits(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report parents that are read commit by commit, but have no table or are not in the query."""
    model = known.model
    for name, how in known.inputs.items():
        if how is not Input.BY_COMMITS:
            continue
        place = place_in_header(model, "kind")
        parent = parents.get(name)
        if parent is None:
            what = (
                f"kind {model.kind.name} of {model.name} reads commits of {name}, but its query "
                f"does not read {name}"
            )
            hint = f"{model.name} reads {', '.join(map(str, parents)) or 'nothing'}"
            yield Problem(what, hint, place)
        elif not (parent.has_table or parent.model.kind.is_external):
            what = f"{model.name} reads the commits of {name}, which has no table"
            yield Problem(what, f"give {name} a kind with a table, or read its inputs", place)


def check_changed_keys(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report a model that is filled by changed keys, but whose parents lack the keys."""
    model = known.model
    if not known.changed_by or model.query is None:
        return
    from vde_dagster.semantics.refresh.keys import tables_with_key

    schema = column_types(parents)
    if (
        parents
        and len(schema) == len(parents)
        and not any("*" in columns for columns in schema.values())
        and not tables_with_key(model.query, schema, known.changed_by)
    ):
        key = ", ".join(known.changed_by)
        place = place_in_header(model, "kind", known.changed_by[0])
        missing = _missing_types(parents, schema, model.query, known.changed_by)
        if missing is not None:
            yield Problem(f"{model.name}: {missing[0]}", missing[1], place)
            return
        from vde_dagster.semantics.refresh.methods import explain_not_refreshable

        why = explain_not_refreshable(model.query, schema, key=known.changed_by)
        offset = mistake_offset(model.query, why) if why is not None else None
        yield Problem(
            f"{model.name}: no parent's rows contain the key {key}, so changed keys cannot be "
            f"found: {why}",
            (why.hint if why is not None else "")
            or "choose a key that the query copies from a parent and uses in each JOIN, GROUP BY "
            "and PARTITION BY, or choose kind FULL",
            place if offset is None else model.place(offset),
        )


def check_refresh_changes(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report that `refresh changes` has no effect, with the reason."""
    # The property has no effect if each fill computes all rows anyway.
    model = known.model
    refresh = model.kind.refresh if isinstance(model.kind, Full) else "whole"
    if refresh != "changes":
        return
    what = f"{model.name}: `refresh changes` has no effect, because all rows are computed"
    if model.query is None or model.pre_statements or model.post_statements:
        own = "is Python code" if model.query is None else "has its own statements"
        place = place_in_header(model, "refresh")
        yield Problem(f"{what}: it {own}", "remove the property", place, False)
        return
    if known.clock is not None:
        hint = "take the time from a column of a parent, or remove the property"
        yield Problem(
            f"{what}: the query reads {known.clock}", hint, place_in_header(model, "refresh"), False
        )
        return
    schema = column_types(parents)
    if any(type_ == "UNKNOWN" for types in schema.values() for type_ in types.values()):
        return
    from vde_dagster.semantics.refresh.methods import explain_not_refreshable

    why = explain_not_refreshable(model.query, schema) if len(schema) == len(parents) else None
    if why is not None:
        offset = mistake_offset(model.query, why)
        where = place_in_header(model, "refresh") if offset is None else model.place(offset)
        hint = why.hint or "write the query without this part"
        yield Problem(f"{what}: {why}", f"{hint}, or remove the property", where, False)


def _missing_types(
    parents: Mapping[ModelName, Snapshot],
    schema: Mapping[str, Mapping[str, str]],
    query: str,
    key: Sequence[str],
) -> tuple[str, str] | None:
    """Return a message and a hint if only unknown column types prevent finding changed keys."""
    from vde_dagster.semantics.refresh.keys import tables_with_key

    untyped = {
        name: [c for c, type_ in schema[str(name)].items() if type_ == "UNKNOWN" and c != "*"]
        for name in parents
    }
    untyped = {name: columns for name, columns in untyped.items() if columns}
    known = {
        column.lower(): type_
        for types in schema.values()
        for column, type_ in types.items()
        if type_ != "UNKNOWN"
    }
    typed = {
        table: {
            c: known.get(c.lower(), "STRING") if type_ == "UNKNOWN" else type_
            for c, type_ in types.items()
        }
        for table, types in schema.items()
    }
    if not untyped or not tables_with_key(query, typed, key):
        return None
    first, columns = next(iter(untyped.items()))
    read = dict.fromkeys(
        str(one) for name in untyped for one in parents[name].model.depends_on or [name]
    )
    where = "external_models.yaml"
    if any(parents[name].model.tool == "dbt" for name in untyped):
        where = "YAML, as data_type below the source's columns"
    return (
        f"the types of {', '.join(columns)} of {first} are unknown, so the changed "
        f"{', '.join(key)} cannot be found",
        f"declare the columns of {listed(list(read))} with their types in {where}, or "
        f"cast them in the SELECT: CAST({columns[0]} AS STRING) AS {columns[0]}",
    )


def _has_interval(model: Model) -> bool:
    found = (
        one for text in (model.query or "", *model.pre_statements) for one in find_variables(text)
    )
    return any(name.startswith(("start_", "end_")) for name, *_ in found)


def _inlined(parents: Mapping[ModelName, Snapshot]) -> list[Snapshot]:
    return [parent for parent in parents.values() if parent.model.query and not parent.has_table]


_SOME_DAY = datetime(2013, 1, 1, tzinfo=timezone.utc)
_WITHOUT_DOUBT = re.compile(
    r"(?i)(date|string|varchar|char|tinyint|smallint|int|bigint|double|float|boolean|binary"
    r"|decimal|array|map|struct)\b"
)
"""Types that certainly are, or are not, suitable for a time column; timestamps always are."""
_WITHOUT_ZONE = re.compile(r"(?i)(string|varchar|char|tinyint|smallint|int|bigint|timestamp_ntz)\b")
"""Types that Spark compares with texts without using the session's time zone."""
_INSTANT = re.compile(r"[@$]\{?(?:start|end)_(?:ts|dtntz)\b", re.IGNORECASE)
_DAY = re.compile(r"[@$]\{?(?:start|end)_(?:ds|date)\b", re.IGNORECASE)
_UTC = frozenset(
    ("utc", "uct", "gmt", "z", "zulu", "universal", "etc/utc", "etc/uct", "etc/gmt", "+00:00")
)
_ZONE = "spark.sql.session.timezone"
_SET_ZONE = re.compile(
    r"(?i)^\s*SET\s+(?:TIME\s+ZONE\s+|`?spark\.sql\.session\.timeZone`?\s*=\s*)['\"]?([^'\";]+)"
)


def check_time_column(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report a time column whose type or format cannot select the rows of one interval."""
    model = known.model
    apart = model.kind.interval_column
    if apart is None:
        return
    types = {column.name.lower(): column.type for column in known.columns or ()}
    type_ = types.get(apart.name.lower()) or ("STRING" if apart.format else None)
    if type_ is None or not _WITHOUT_DOUBT.match(type_):
        return
    if type_.lower() in ("smallint", "int", "bigint") and not apart.format:
        yield Problem(
            f"{model.name}: the time column '{apart.name}' is {type_} without a format, so "
            "20240131 is read as 31 January 2024",
            f"write time_column ({apart.name}, '%Y%m%d'), or the format that its numbers have",
            place_in_header(model, "kind", apart.name),
            certain=False,
        )
    unit = Cadence.of(model).unit
    start = unit.floor(_SOME_DAY)
    # The second one begins within a day, month or year unless the unit is one, or longer.
    first = unit.shift(start, 1)
    interval = Interval(first, unit.shift(first, 1))
    try:
        TimeColumn(apart.name, type_, apart.format).condition(interval)
    except ExecutionError as error:
        yield Problem(
            f"{model.name}: {error.message}".replace(interval.text, "of its cron", 1),
            error.hint or "use a TIMESTAMP column",
            place_in_header(model, "kind", apart.name),
        )


def check_time_zone(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report time variables that Spark interprets in another time zone than UTC."""
    # If a DATE or a text without a zone is compared with a TIMESTAMP, Spark casts it to a TIMESTAMP
    # in the session's zone. If it is compared with a TIMESTAMP_NTZ or a text, Spark does not
    # convert it. See https://spark.apache.org/docs/latest/sql-ref-ansi-compliance.html.
    model = known.model
    zone = _session_zone(model)
    if zone is None or model.query is None or not model.kind.by_intervals:
        return
    apart = model.kind.interval_column
    types = {column.name.lower(): column.type for column in known.columns or ()}
    type_ = (types.get(apart.name.lower()) if apart else None) or ""
    if _WITHOUT_ZONE.match(type_) or (apart is not None and apart.format):
        return
    found = _INSTANT.search(model.query)
    if found is None and type_.lower() in ("timestamp", "timestamp_ltz"):
        found = _DAY.search(model.query)
    if found is None:
        return
    name = found.group().lstrip("@${")
    yield Problem(
        f"{model.name}: Spark converts @{name} in the session's time zone {zone} to compare it "
        "with a TIMESTAMP; intervals are in UTC, so rows near the ends of intervals are left out",
        f"compare with @{name.partition('_')[0]}_dt, which is an instant, or leave the session's "
        "time zone at UTC",
        model.place(found.start()),
        certain=False,
    )


def _session_zone(model: Model) -> str | None:
    zone = next((value for key, value in model.session if key.lower() == _ZONE), None)
    for statement in model.pre_statements:
        found = _SET_ZONE.match(statement)
        zone = found.group(1).strip() if found else zone
    return None if zone is None or zone.lower() in _UTC else zone


_COUNTING = frozenset(
    (
        *("try_add", "try_subtract", "try_multiply", "try_divide", "concat", "concat_ws"),
        *("array_append", "array_prepend", "array_insert"),
        *("date_add", "date_sub", "dateadd", "add_months", "timestampadd"),
    )
)
"""Functions whose results depend on accumulated values, unlike COALESCE or GREATEST."""
_ASKING = frozenset({"if", "iff", "nvl2"})
"""Functions whose first argument chooses a value."""


def check_merge_assignments(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report mistakes in a merge's assignments and conditions, such as a value of a wrong type."""
    kind = known.model.kind
    if known.columns is None or not (kind.assignments or kind.conditions):
        return
    from vde_dagster.semantics.analysis import analyze

    types = {column.name: column.type or "UNKNOWN" for column in known.columns}
    shown = ", ".join(f"{text} AS v{i}" for i, (_, text) in enumerate(kind.assignments))
    only = " AND ".join(f"({text})" for text in kind.conditions)
    query = f"SELECT {shown or '1 AS v'} FROM source CROSS JOIN target"
    try:
        found = analyze(
            f"{query} WHERE {only}" if only else query,
            {"source": types, "target": types},
            functions=known.functions,
        )
    except SemanticError:
        return  # Another check reports missing columns.
    for one in found.findings:
        if one.rule not in NAMES and one.certain:
            location = place_in_header(known.model, "kind", "when_matched")
            yield Problem(f"{known.model.name}, in its kind: {one.message}", one.hint, location)
    yield from _refused(known, found.output_types, types)


def check_repeated_merge(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report a merge that counts rows twice, because a lookback merges the same rows again."""
    # SQLMesh calls such models non-idempotent. Its documentation does not mention their lookback:
    # https://sqlmesh.readthedocs.io/en/stable/concepts/models/model_kinds/
    # Rows are counted twice because lookback merges them again.
    model = known.model
    kind = model.kind
    if not kind.lookback or not kind.assignments:
        return
    changed = {
        name.lower() for name, text in kind.assignments if text.lower() != f"target.{name}".lower()
    }
    for column, text in dict(kind.assignments).items():
        if changed.isdisjoint(_counted(text)):
            continue
        yield Problem(
            f"{model.name}: its kind adds to values in the table ({column} = {text}), and "
            f"lookback {kind.lookback} merges the same rows again in later runs: they "
            "are counted more than once",
            f"remove lookback, or let the query compute the total and set '{column}' = "
            f"source.{column}",
            place_in_header(model, "kind", "set", column),
            certain=False,
        )


def _refused(
    known: CheckedModel, values: Mapping[str, str], types: Mapping[str, str]
) -> Iterator[Problem]:
    from vde_dagster.semantics.types import is_refused_store

    for_column = {name.lower(): (name, type_) for name, type_ in types.items()}
    for number, (column, text) in enumerate(known.model.kind.assignments):
        value = values.get(f"v{number}", "UNKNOWN")
        name, type_ = for_column.get(column.lower(), (column, "UNKNOWN"))
        if is_refused_store(value, type_):
            yield Problem(
                f"{known.model.name}: its kind sets '{name}', which is {type_}, to {value}: {text}",
                f"write CAST(… AS {type_}), or give the column another type",
                place_in_header(known.model, "kind", "set", column),
            )


def _counted(text: str) -> set[str]:
    """Return the columns that an expression accumulates, such as `n` in `target.n + source.n`."""
    # A second merge of the same rows would change these columns again.
    return set(_computed_with(read_expression(text).tree, False))


def _computed_with(node: exp.Expr, counted: bool) -> Iterator[str]:
    from vde_dagster.semantics.types import case_branches

    if isinstance(node, exp.Column):
        if counted and node.table.lower() == "target":
            yield node.name.lower()
        return
    inner = list(node.iter_expressions())
    if isinstance(node, exp.Case):
        # What is asked chooses a value, and is none.
        inner = case_branches(node)
    elif isinstance(node, exp.Anonymous):
        call = call_name(node)
        counted = counted or call in _COUNTING
        inner = inner[1:] if call in _ASKING else inner
    elif isinstance(node, _operators()):
        counted = True
    for one in inner:
        yield from _computed_with(one, counted)


@cache
def _operators() -> tuple[type[exp.Expr], ...]:
    return (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.BitwiseXor)


_CHECKS = (
    check_spark_grammar,
    query_problems,
    check_double_quotes,
    names.check_named_columns,
    names.check_partition_transforms,
    names.check_declared_columns,
    names.check_audit_columns,
    check_statement_operators,
    check_self_read,
    check_interval_filter,
    check_view_variables,
    check_partition_length,
    check_time_column,
    check_time_zone,
    check_merge_assignments,
    check_repeated_merge,
    check_parents_by_commits,
    check_changed_keys,
    check_refresh_changes,
    names.unused_properties,
    names.unused_statements,
    names.unused_stages,
)


def check_model(known: CheckedModel, parents: Mapping[ModelName, Snapshot]) -> tuple[Problem, ...]:
    found = [problem for check in _CHECKS for problem in check(known, parents)]
    return tuple(sorted(dict.fromkeys(found), key=lambda one: one.location.order))
