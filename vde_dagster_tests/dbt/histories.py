"""Random histories of sources, as incremental models, microbatches and snapshots of dbt see them.

A history is one model with its own source over several rounds: each round changes the source by
inserts, late rows, updates, deletes, NULL and repeated keys, and times that go back, and then runs
everything. `benchmarks/dbt_histories.py` runs histories with dbt-duckdb or dbt-spark and here, and
records some of them for the suite, where no adapter is installed.

dbt-spark's histories leave out inputs for which its own tables are wrong (see docs/dbt.md):

- a snapshot's row that changes or returns with an `updated_at` that it had before, or with NULL
  under the strategy `check`: the MERGE of dbt-spark drops the version or fails;
- a snapshot with a `unique_key` of several columns, whose third run fails in dbt-spark, or with
  `hard_deletes: new_record`, where dbt-spark writes NULL into all columns of the source;
- a day of a microbatch that loses its last row: an empty batch replaces no partition;
- an overwrite without `partition_by` and without rows, which depends on the session's
  `partitionOverwriteMode`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan.plan_options import PlanOptions

COLUMNS = "id BIGINT, k STRING, day DATE, ts TIMESTAMP, v BIGINT"
"""Columns of every source, in types of both engines."""
Row = tuple[Any, ...]
Rows = dict[str, list[list[str]]]
"""Rows as texts, by model."""


@dataclass(frozen=True, slots=True)
class History:
    """One model and what its source holds in each round.

    Args:
        name: The model's name; its source is `raw.src_NAME`.
        files: Files of the dbt project by path.
        shown: The columns that are compared, as SQL.
        rounds: Rows of the source, by round.
    """

    name: str
    files: Mapping[str, str]
    rounds: tuple[tuple[Row, ...], ...]
    shown: str = "*"

    @property
    def source(self) -> str:
        """The name of its source."""
        return f"src_{self.name}"


def histories(
    seed: int,
    count: int,
    rounds: int,
    now: datetime,
    only: Sequence[str] = (),
    adapter: str = "duckdb",
) -> list[History]:
    """Return histories of all strategies in turn, by a seed.

    Args:
        only: Names of strategies, as `KINDS` has them; empty for all.
        now: The instant of the first round (UTC), behind which no source has rows.
        adapter: dbt's adapter, `duckdb` or `spark`.
    """
    rng = random.Random(seed)
    kinds = [name for name in KINDS[adapter] if not only or name in only]
    found = []
    for number in range(count):
        kind = kinds[(number + seed) % len(kinds)]
        found.append(KINDS[adapter][kind](f"m{number}_{kind}", rng, rounds, now))
    return found


TARGETS = {
    "duckdb": "{type: duckdb, path: data.duckdb, schema: main}",
    "spark": "{type: spark, method: session, host: NA, schema: main}",
}
"""Targets of `profiles.yml`, by adapter."""


def project_files(made: Sequence[History], adapter: str = "duckdb") -> dict[str, str]:
    """Return the files of the dbt project of some histories."""
    sources = "".join(
        f"      - name: {one.source}\n        config: {{event_time: ts}}\n" for one in made
    )
    declared = f"sources:\n  - name: raw\n    schema: raw\n    tables:\n{sources}"
    files = {
        "dbt_project.yml": "name: histories\nversion: '1.0'\nprofile: histories\n"
        "flags: {send_anonymous_usage_stats: false}\n",
        "profiles.yml": f"histories: {{target: dev, outputs: {{dev: {TARGETS[adapter]}}}}}\n",
        "models/sources.yml": declared,
    }
    for one in made:
        files |= one.files
    return files


# -- sources ---------------------------------------------------------------------------------


def _source(
    rng: random.Random, rounds: int, now: datetime, *, unique: bool = False
) -> tuple[tuple[Row, ...], ...]:
    """Return what a source holds in each round.

    Args:
        unique: Whether `id` is in one row alone, and never NULL.
    """
    rows: list[Row] = []
    newest = 0
    found = []
    for number in range(rounds):
        for _ in range(rng.randint(2, 5) if number == 0 else rng.randint(0, 3)):
            newest += 1
            same = newest if unique or rng.random() < 0.8 else max(1, newest - 1)
            rows.append(_row(rng, same, now, late=number > 0 and rng.random() < 0.3))
        if number:
            _change(rng, rows, now)
        found.append(tuple(rows))
    return tuple(found)


def _row(rng: random.Random, id_: int, now: datetime, *, late: bool) -> Row:
    hours = rng.randint(60, 80) if late else rng.randint(1, 50)
    ts = (now - timedelta(hours=hours)).replace(minute=rng.choice((0, 30)), second=0, microsecond=0)
    key = rng.choice(("a", "b", "c", None))
    return (id_, key, ts.date(), ts, rng.randint(0, 9))


def _change(rng: random.Random, rows: list[Row], now: datetime) -> None:
    for index in range(len(rows) - 1, -1, -1):
        luck = rng.random()
        id_, key, _, ts, value = rows[index]
        if luck < 0.1:
            del rows[index]
        elif luck < 0.2:
            rows[index] = (id_, key, ts.date(), ts, value + 1)  # The time stays.
        elif luck < 0.3:
            back = ts - timedelta(hours=rng.randint(1, 30))
            rows[index] = (id_, key, back.date(), back, value + rng.randint(0, 1))
        elif luck < 0.4:
            on = min(ts + timedelta(hours=rng.randint(1, 30)), now - timedelta(minutes=30))
            on = on.replace(second=0, microsecond=0)
            rows[index] = (id_, rng.choice((key, None)), on.date(), on, value + rng.randint(0, 2))


# -- models ----------------------------------------------------------------------------------

_NEWER = (
    "where day >= (select max(day) from {{ this }})",
    "where ts > (select max(ts) from {{ this }})",
    "where ts >= (select coalesce(max(ts), timestamp '1970-01-01') from {{ this }})",
    "where v >= (select min(v) from {{ this }}) and ts > (select min(ts) from {{ this }})",
)
_KEYS = ("'id'", "'k'", "'day'", "['k', 'day']", "['id', 'k']")


def _model(name: str, config: str, first: str, later: str = "") -> dict[str, str]:
    body = f"{first}\n{{% if is_incremental() %}} {later} {{% endif %}}" if later else first
    if later.startswith("select"):
        body = f"{{% if is_incremental() %}} {later} {{% else %}} {first} {{% endif %}}"
    text = f"{{{{ config(materialized='incremental', {config}) }}}}\n{body}\n"
    return {f"models/{name}.sql": text}


def _plain(name: str) -> str:
    return f"select id, k, day, ts, v from {{{{ source('raw', 'src_{name}') }}}}"


def _delete_insert(name: str, rng: random.Random, rounds: int, now: datetime) -> History:
    strategy = rng.choice(("incremental_strategy='delete+insert', ", ""))
    key = rng.choice(_KEYS)
    config = f"{strategy}unique_key={key}"
    if rng.random() < 0.25:
        target = "DBT_INCREMENTAL_TARGET." if "[" in key else ""
        config += f", incremental_predicates=['{target}v < 6']"
    later = rng.choice((*_NEWER, ""))
    return History(name, _model(name, config, _plain(name), later), _source(rng, rounds, now))


def _merge(name: str, rng: random.Random, rounds: int, now: datetime) -> History:
    key = rng.choice(("k", "day"))
    grouped = (
        f"select max(id) as id, {'k, max(day) as day' if key == 'k' else 'max(k) as k, day'}, "
        f"max(ts) as ts, sum(v) as v from {{{{ source('raw', 'src_{name}') }}}}"
    )
    config = f"incremental_strategy='merge', unique_key='{key}'"
    config += rng.choice(("", ", merge_update_columns=['v']", ", merge_exclude_columns=['ts']"))
    first = rng.choice((f"{grouped} group by {key}", _plain(name)))
    later = f"{grouped} {rng.choice((*_NEWER, ''))} group by {key}"
    return History(name, _model(name, config, first, later), _source(rng, rounds, now))


def _append(name: str, rng: random.Random, rounds: int, now: datetime) -> History:
    config = "incremental_strategy='append'" + rng.choice(("", ", event_time='ts'"))
    later = rng.choice((*_NEWER[:3], "where id > (select max(id) from {{ this }})", ""))
    return History(name, _model(name, config, _plain(name), later), _source(rng, rounds, now))


def _microbatch(name: str, rng: random.Random, rounds: int, now: datetime) -> History:
    begin = (now - timedelta(days=3)).date()
    config = (
        f"incremental_strategy='microbatch', event_time='ts', begin='{begin}', "
        f"batch_size='day', lookback={rng.randint(0, 3)}"
    )
    source = f"source('raw', 'src_{name}')"
    opted_out = f"{{{{ {source}.render() }}}}"
    query = rng.choice(
        (
            _plain(name),
            f"select e.id, e.k, e.day, e.ts, s.v from {{{{ {source} }}}} as e "
            f"cross join (select count(*) as v from {opted_out}) as s",
            f"select e.id, e.k, e.day, e.ts, (select max(o.v) from {opted_out} o where o.k = e.k) "
            f"as v from {{{{ {source} }}}} e",
        )
    )
    return History(name, _model(name, config, query), _source(rng, rounds, now))


def _snapshot(
    name: str,
    rng: random.Random,
    rounds: int,
    now: datetime,
    deletes: Sequence[str] = ("invalidate", "new_record"),
    keys: Sequence[str] = ("'id'", "'id'", "['id', 'k']"),
) -> History:
    if rng.random() < 0.5:
        config = "strategy='timestamp', updated_at='ts'"
    else:
        config = "strategy='check', check_cols=" + rng.choice(("'all'", "['v']", "['k', 'v']"))
        config += rng.choice(("", ", updated_at='ts'"))
    config += rng.choice(("", *(f", hard_deletes='{one}'" for one in deletes)))
    key = rng.choice(keys)
    text = (
        f"{{% snapshot {name} %}}\n"
        f"{{{{ config(target_schema='main', unique_key={key}, {config}) }}}}\n"
        f"{_plain(name)}\n{{% endsnapshot %}}\n"
    )
    source = tuple(
        tuple((*row[:3], None if row[0] % 5 == 4 else row[3], row[4]) for row in rows)
        for rows in _source(rng, rounds, now, unique=True)
    )
    deleted = ", dbt_is_deleted" if "new_record" in config else ""
    shown = f"id, k, day, ts, v, dbt_updated_at, dbt_valid_from, dbt_valid_to{deleted}"
    return History(name, {f"snapshots/{name}.sql": text}, source, shown)


# -- models of dbt-spark -----------------------------------------------------------------------

_ICEBERG = "file_format='iceberg', "


def _append_on_spark(name: str, rng: random.Random, rounds: int, now: datetime) -> History:
    key = rng.choice(
        ("", "unique_key='id', ")
    )  # Without a strategy dbt-spark appends all the same.
    strategy = "" if key else "incremental_strategy='append', "
    config = f"{_ICEBERG}{key}{strategy}on_schema_change='ignore'"
    later = rng.choice((*_NEWER[:3], "where id > (select max(id) from {{ this }})", ""))
    return History(name, _model(name, config, _plain(name), later), _source(rng, rounds, now))


def _merge_on_spark(name: str, rng: random.Random, rounds: int, now: datetime) -> History:
    made = _merge(name, rng, rounds, now)
    more = ("", "incremental_predicates=['DBT_INTERNAL_DEST.v < 20'], ")
    return _with_config(made, f"{_ICEBERG}{rng.choice(more)}")


def _overwrite(name: str, rng: random.Random, rounds: int, now: datetime) -> History:
    partitions = rng.choice(("'day'", "'k'", "['k', 'day']", ""))
    config = f"{_ICEBERG}incremental_strategy='insert_overwrite'"
    one_row = (
        "select max(id) as id, max(k) as k, max(day) as day, max(ts) as ts, count(*) as v "
        f"from {{{{ source('raw', 'src_{name}') }}}}"
    )
    later = rng.choice((*_NEWER, "")) if partitions else rng.choice((one_row, ""))
    if partitions:
        config += f", partition_by={partitions}"
    return History(name, _model(name, config, _plain(name), later), _source(rng, rounds, now))


def _microbatch_on_spark(name: str, rng: random.Random, rounds: int, now: datetime) -> History:
    made = _microbatch(name, rng, rounds, now)
    return _with_config(
        replace(made, rounds=_no_empty_days(made.rounds)), f"{_ICEBERG}partition_by=['day'], "
    )


def _snapshot_on_spark(name: str, rng: random.Random, rounds: int, now: datetime) -> History:
    made = _snapshot(name, rng, rounds, now, ("invalidate",), ("'id'", "'id + 1'"))
    made = _with_config(made, _ICEBERG)
    (text,) = made.files.values()
    by_time = "updated_at" in text
    return replace(made, rounds=_new_times(made.rounds, "check" in text)) if by_time else made


def _with_config(made: History, config: str) -> History:
    """Return a history whose model has further configuration."""
    files = {
        path: text.replace("config(", f"config({config}", 1) for path, text in made.files.items()
    }
    return replace(made, files=files)


def _no_empty_days(rounds: tuple[tuple[Row, ...], ...]) -> tuple[tuple[Row, ...], ...]:
    """Return rounds in which a day that had rows keeps at least one of them."""
    found: list[tuple[Row, ...]] = []
    for rows in rounds:
        has = {row[2] for row in rows}
        before = {row[2]: row for row in (found[-1] if found else ())}
        found.append((*rows, *(row for day, row in before.items() if day not in has)))
    return tuple(found)


def _new_times(rounds: tuple[tuple[Row, ...], ...], has_time: bool) -> tuple[tuple[Row, ...], ...]:
    """Return rounds in which each change of a row has a time that its key never had before.

    Args:
        has_time: Whether each row has a time.
    """
    used: dict[Any, set[datetime]] = {}
    before: dict[Any, Row] = {}
    found = []
    for rows in rounds:
        made = []
        for id_, key, day, given, value in rows:
            ts = (
                datetime.combine(day, time(), timezone.utc) if given is None and has_time else given
            )
            times, last = used.setdefault(id_, set()), before.get(id_)
            while ts in times and last != (id_, key, day, ts, value):
                ts += timedelta(seconds=1)
            if ts is not None:
                times.add(ts)
            before[id_] = (id_, key, day, ts, value)
            made.append(before[id_])
        found.append(tuple(made))
    return tuple(found)


Maker = Callable[[str, random.Random, int, datetime], History]
KINDS: dict[str, dict[str, Maker]] = {
    "duckdb": {
        "delete_insert": _delete_insert,
        "merge": _merge,
        "append": _append,
        "microbatch": _microbatch,
        "snapshot": _snapshot,
    },
    "spark": {
        "append": _append_on_spark,
        "merge": _merge_on_spark,
        "insert_overwrite": _overwrite,
        "microbatch": _microbatch_on_spark,
        "snapshot": _snapshot_on_spark,
    },
}
"""Makers of histories by adapter and strategy."""


# -- running here ------------------------------------------------------------------------------


def run_here(root: Path, made: Sequence[History], instants: Sequence[datetime] = ()) -> list[Rows]:
    """Run histories in a project's folder on Spark; returns rows by model for each round.

    Args:
        instants: The instant of each round (UTC); the present where none are given.
    """
    begun: list[datetime] = []
    found: list[dict[str, list[tuple[Any, ...]]]] = []
    with Workspace.open(root) as workspace:
        session = workspace.engine().session  # type: ignore[attr-defined]
        session.sql("CREATE NAMESPACE IF NOT EXISTS lakehouse.raw")
        for one in made:
            session.sql(f"CREATE TABLE lakehouse.raw.{one.source} ({COLUMNS}) USING iceberg")
        for number in range(len(made[0].rounds)):
            for one in made:
                session.sql(f"DELETE FROM lakehouse.raw.{one.source}")
                if rows := ", ".join(map(_values, one.rounds[number])):
                    session.sql(f"INSERT INTO lakehouse.raw.{one.source} VALUES {rows}")
            now = instants[number] if instants else datetime.now(timezone.utc)
            begun.append(now)
            if number == 0:
                plan = workspace.plan("prod", now=now if instants else None)
            else:
                options = PlanOptions(ignore_cron=True, now=now if instants else None)
                plan = workspace.plans.due("prod", options)
            workspace.apply(plan)
            queries = {one.name: f"SELECT {one.shown} FROM main.{one.name}" for one in made}
            found.append(
                {n: list(map(tuple, workspace.query("prod", q).rows)) for n, q in queries.items()}
            )
    return [{name: texts_of(rows, begun) for name, rows in one.items()} for one in found]


def _values(row: Row) -> str:
    """Write a row of a source in Spark SQL."""
    id_, key, day, ts, value = row
    text = "NULL" if key is None else f"'{key}'"
    at = "NULL" if ts is None else f"TIMESTAMP '{ts.replace(tzinfo=None).isoformat(' ')}Z'"
    return f"({id_}, {text}, DATE '{day}', {at}, {value})"


# -- comparing -------------------------------------------------------------------------------


def text_of(value: Any, begun: Sequence[datetime]) -> str:
    """Write a value so that both engines' are equal; an instant of a run is its round.

    Args:
        begun: When each round began (UTC).
    """
    if isinstance(value, datetime):
        at = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        if at >= begun[0]:
            return f"round {sum(one <= at for one in begun)}"
        return at.astimezone(timezone.utc).replace(tzinfo=None).isoformat()
    if isinstance(value, date):
        return datetime.combine(value, time()).isoformat()
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return f"{float(value):.12g}"
    return str(value)


def texts_of(rows: Sequence[Sequence[Any]], begun: Sequence[datetime]) -> list[list[str]]:
    """Write rows as sorted texts."""
    return sorted([text_of(value, begun) for value in row] for row in rows)
