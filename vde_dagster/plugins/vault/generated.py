"""Queries for a vault's readers: each macro writes a whole query over the vault's tables.

A model whose query is such a call is an ordinary view or table; its versions and lineage come from
the written query. A key is one or several columns. The column with the time of a row is `ldts` by
default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vde_dagster.api.values import ModelName, quote
from vde_dagster.plugins.vault.hashing import ghost
from vde_dagster.plugins.vault.kinds import AGAIN, DELETED

if TYPE_CHECKING:
    from vde_dagster.api.sql import SQL, MacroEvaluator

AS_OF = "as_of"
"""The column with the times of a PIT or a bridge."""
_GHOST_SEQUENCE = "0"
"""The sequence number of a ghost."""


def end_dated(
    evaluator: MacroEvaluator,
    satellite: SQL,
    key: list[str],
    set_key: list[str] | None = None,
    time: str = "ldts",
    sequence: str = "",
) -> str:
    """`@END_DATED(satellite, key)`: the satellite's rows with `end_ldts`.

    The column `end_ldts` is the beginning of the next state, and NULL for the latest state.

    Args:
        set_key: Columns that distinguish the rows of one state; all these rows get the same end.
        sequence: Column that orders states with the same time.
    """
    names = ", ".join(f"s.{quote(name)}" for name in _visible_columns(evaluator, satellite))
    ended = _with_end(satellite, key, time, set_key, sequence)
    return f"SELECT {names}, s.{_end_column(time)} FROM ({ended}) AS s"


def effectivity(
    evaluator: MacroEvaluator,
    satellite: SQL,
    key: list[str],
    set_key: list[str],
    time: str = "ldts",
) -> str:
    """`@EFFECTIVITY(satellite, key, set_key)`: a link's rows with `end_ldts`.

    `key` is the driving key; `set_key` has the link's other keys. A row that marks the driving key
    as deleted ends the previous rows, and begins no new period.
    """
    visible = _visible_columns(evaluator, satellite)
    marks = [name for name in visible if name.lower() == DELETED]
    names = ", ".join(f"s.{quote(name)}" for name in visible if name not in marks)
    # A source may mark deletions itself, in rows that have the other keys, and as 0 or 1.
    there = " AND ".join(
        [f"s.{quote(name)} IS NOT NULL" for name in set_key]
        + [f"CAST(s.{quote(name)} AS BOOLEAN) IS NOT TRUE" for name in marks]
    )
    ended = _with_end(satellite, key, time, set_key)
    return f"SELECT {names}, s.{_end_column(time)} FROM ({ended}) AS s WHERE {there}"


def with_ghost(
    evaluator: MacroEvaluator,
    satellite: SQL,
    key: list[str],
    time: str = "ldts",
    source: str = "rsrc",
    algorithm: str = "",
    form: str = "",
    time_type: str = "",
    sequence: str = "",
) -> str:
    """`@WITH_GHOST(satellite, key)`: the satellite's rows, and a ghost row with the zero key.

    The ghost row has the time of `@GHOST('time')` and the source `SYSTEM`; other columns are NULL.

    Args:
        sequence: Column that orders a key's rows with the same time; it is 0 in the ghost row.
        algorithm, form, time_type: See `@GHOST`.
    """
    names = _visible_columns(evaluator, satellite)
    zero = ghost(evaluator, algorithm=algorithm, form=form)
    made: dict[str, str] = dict.fromkeys(map(str.lower, key), zero)
    made[time.lower()] = ghost(evaluator, "time", time_type=time_type)
    made.setdefault(source.lower(), "'SYSTEM'")
    if sequence:
        made[sequence.lower()] = _GHOST_SEQUENCE
    values = ", ".join(f"{made.get(name.lower(), 'NULL')} AS {quote(name)}" for name in names)
    return f"SELECT {_quoted(names)} FROM {satellite} UNION ALL SELECT {values}"


def last_seen(
    evaluator: MacroEvaluator, table: SQL, tracking: SQL, key: list[str], time: str = "ldts"
) -> str:
    """`@LAST_SEEN(hub, tracking, key)`: rows of a hub or link, with a column `last_seen`.

    Args:
        tracking: The record tracking of the table's keys. Keys without a record
            were last seen on arrival.
    """
    by = _quoted(key)
    names = ", ".join(f"h.{quote(name)}" for name in _visible_columns(evaluator, table))
    return (
        f"SELECT {names}, COALESCE(t.last_seen, h.{quote(time)}) AS last_seen FROM {table} AS h "
        f"LEFT JOIN (SELECT {by}, MAX({quote(time)}) AS last_seen FROM {tracking} GROUP BY {by}) "
        f"AS t ON {_equal(key, 'h', 't')}"
    )


def pit(
    evaluator: MacroEvaluator,
    hub: SQL,
    key: list[str],
    as_of: SQL,
    *satellites: list[str],
    columns: list[str] | None = None,
    time: str = "ldts",
    algorithm: str = "",
    form: str = "",
    time_type: str = "",
) -> str:
    """`@PIT(hub, key, as_of, satellite, …)`: the valid row of each satellite at each time.

    One row per key and time. Columns prefixed with a satellite's name have the key and the time of
    that satellite's valid row. Before the satellite's first row they have the ghost row's values.

    Args:
        satellites: A satellite whose column `number` orders states of the same time is written as
            `(satellite, number)`. The last of these states is valid, and a third column has its
            `number`.
        columns: Further columns of `hub`, such as business keys, or a link's keys of hubs.
        as_of: A table, or a query in brackets, whose column `as_of` has the times.
        algorithm, form, time_type: See `@GHOST`.
    """
    if not satellites:
        raise evaluator.error(
            "@PIT needs a satellite", "write @PIT(hub, key, as_of, satellite, satellite)"
        )
    for one in satellites:
        if len(one) not in (1, 2):
            raise evaluator.error(
                f"@PIT cannot read the satellite ({', '.join(one)})",
                "write the table, or (table, column of its sequence)",
            )
    zero = ghost(evaluator, algorithm=algorithm, form=form)
    beginning = ghost(evaluator, "time", time_type=time_type)
    shown = [f"a.{AS_OF}", *(f"h.{quote(name)}" for name in (*key, *_without_key(key, columns)))]
    names: set[str] = set()
    joins = ""
    for number, (satellite, *sequence) in enumerate(satellites, 1):
        name, alias = ModelName.split(satellite)[-1], f"s{number}"
        if name.lower() in names:
            raise evaluator.error(
                f"@PIT has two satellites '{name}'", "rename one of them with a view"
            )
        names.add(name.lower())
        begun, end = f"{alias}.{quote(time)}", f"{alias}.{_end_column(time)}"
        shown += [
            f"COALESCE({alias}.{quote(one)}, {zero}) AS {quote(f'{name}_{one}')}" for one in key
        ]
        shown.append(f"COALESCE({begun}, {beginning}) AS {quote(f'{name}_{time}')}")
        shown += [
            f"COALESCE({alias}.{quote(one)}, {_GHOST_SEQUENCE}) AS {quote(f'{name}_{one}')}"
            for one in sequence
        ]
        moments = f"SELECT DISTINCT {_quoted((*key, time))} FROM {satellite}"
        if sequence:
            last = f"MAX({quote(sequence[0])}) AS {quote(sequence[0])}"
            by = _quoted((*key, time))
            moments = f"SELECT {by}, {last} FROM {satellite} GROUP BY {by}"
        times = f"({moments})"
        joins += (
            f" LEFT JOIN ({_with_end(times, key, time)}) AS {alias} ON {_equal(key, alias, 'h')} "
            f"AND {begun} <= a.{AS_OF} AND ({end} IS NULL OR {end} > a.{AS_OF})"
        )
    return (
        f"SELECT {', '.join(shown)} FROM {_distinct_times(as_of)} AS a CROSS JOIN {hub} AS h{joins}"
    )


def bridge(
    evaluator: MacroEvaluator,
    hub: SQL,
    key: list[str],
    as_of: SQL,
    *hops: list[str],
    columns: list[str] | None = None,
    link_keys: list[str] | None = None,
    time: str = "ldts",
    algorithm: str = "",
    form: str = "",
) -> str:
    """`@BRIDGE(hub, key, as_of, (link, from, to), …)`: the keys on each path over links.

    There is one row per time and path. If a path ends early, its further keys are the zero key.

    Args:
        as_of: See `@PIT`.
        hops: One `(link, from, to)` for each step of the path. The step goes from the key in the
            link's column `from` to the key in its column `to`. If the link's rows have an end date,
            the hop also names its column, as `(link, from, to, end_ldts)`.
        columns: Further columns of the hub.
        link_keys: The column with the link's own key, for each hop.
    """
    if len(key) != 1 or not hops or not all(len(hop) in (3, 4) for hop in hops):
        raise evaluator.error(
            "@BRIDGE starts from one key, and continues by links with two keys each",
            "write @BRIDGE(hub, key, as_of, (link, from, to), (effectivity, from, to, end_ldts))",
        )
    zero = ghost(evaluator, algorithm=algorithm, form=form)
    if link_keys is not None and len(link_keys) != len(hops):
        raise evaluator.error(
            f"@BRIDGE has {len(hops)} links and {len(link_keys)} link_keys",
            "name the key of each link, in the order of the links",
        )
    here, joins = f"h.{quote(key[0])}", ""
    of_hub = [*key, *_without_key(key, columns)]
    shown = [f"a.{AS_OF}", *(f"h.{quote(name)}" for name in of_hub)]
    names = {AS_OF, *map(str.lower, of_hub)}
    for number, (link, come, go, *end) in enumerate(hops, 1):
        alias = f"l{number}"
        joins += (
            f" LEFT JOIN {link} AS {alias} ON {alias}.{quote(come)} = {here} "
            f"AND {alias}.{quote(time)} <= a.{AS_OF}"
        )
        for until in (f"{alias}.{quote(name)}" for name in end):
            joins += f" AND ({until} IS NULL OR {until} > a.{AS_OF})"
        here = f"{alias}.{quote(go)}"
        for name in (go, *(link_keys[number - 1 : number] if link_keys else ())):
            if name.lower() in names:
                raise evaluator.error(
                    f"@BRIDGE has two columns '{name}'",
                    f"give it another name in a view of {link}, and read the view",
                )
            names.add(name.lower())
        if link_keys is not None:
            own = quote(link_keys[number - 1])
            shown.append(f"COALESCE({alias}.{own}, {zero}) AS {own}")
        shown.append(f"COALESCE({here}, {zero}) AS {quote(go)}")
    times = _distinct_times(as_of)
    return f"SELECT DISTINCT {', '.join(shown)} FROM {times} AS a CROSS JOIN {hub} AS h{joins}"


def _without_key(key: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    own = set(map(str.lower, key))
    return [name for name in columns or () if name.lower() not in own]


def _with_end(
    table: str,
    key: Sequence[str],
    time: str,
    set_key: Sequence[str] | None = None,
    sequence: str = "",
) -> str:
    over = f"OVER (PARTITION BY {_quoted(key)} ORDER BY"
    moment = _quoted([time, *([sequence] if sequence else [])])
    if not set_key:
        end = f"LEAD({quote(time)}) {over} {moment})"
        return f"SELECT *, {end} AS {_end_column(time)} FROM {table}"
    # Rows of one state share a number; with LEAD they would get one another's time.
    numbered = f"SELECT *, DENSE_RANK() {over} {moment}) AS vde_number FROM {table}"
    end = f"MIN({quote(time)}) {over} vde_number RANGE BETWEEN 1 FOLLOWING AND 1 FOLLOWING)"
    return f"SELECT *, {end} AS {_end_column(time)} FROM ({numbered})"


def _distinct_times(as_of: str) -> str:
    return f"(SELECT DISTINCT {AS_OF} FROM {as_of})"


def _visible_columns(evaluator: MacroEvaluator, table: str) -> list[str]:
    return [name for name in evaluator.columns_to_types(table) if name.lower() != AGAIN]


def _end_column(time: str) -> str:
    return quote(f"end_{time}")


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(quote, names))


def _equal(names: Sequence[str], one: str, other: str) -> str:
    return " AND ".join(f"{one}.{quote(name)} = {other}.{quote(name)}" for name in names)
