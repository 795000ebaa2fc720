"""Writer of CHANGES tables: recomputes the states of all keys that have new rows.

A table depends only on the rows that ever arrived. A row that repeats the previous state is not
stored, but its time is stored with the state's first row. If a late row with a different state
falls between these two times, the repeated row becomes a change, and is restored from its time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from vde_dagster.api.errors import ExecutionError
from vde_dagster.api.plans import Snapshot
from vde_dagster.api.values import count, quote
from vde_dagster.api.writers import Layout, Strategy, Write
from vde_dagster.plugins.vault.first_seen import check_time, null_error
from vde_dagster.plugins.vault.kinds import AGAIN, DELETED, Changes

SEVERAL_STATES = "vde_several_states"
"""Column that is TRUE if the row was chosen from several states of its key at the same time."""


@dataclass(frozen=True, slots=True)
class States:
    """Writes the SQL that finds the rows where the state of a key changes.

    Sessions that run the SQL must be in UTC.

    Args:
        types: Spark SQL type by column, in the table's order.
        key: Columns that identify the object with states.
        time: The column with the load date.
        source: The column with the record source, or None.
        compare: Columns whose values are the state.
        set_key: Columns that identify a row among the rows of one state; empty if a state is one
            row.
        repeats: The column with the times at which a state was repeated.
        deletion_mark: The column that is TRUE in rows for a deleted key; None if a key stays when a
            delivery lacks it.
        sequence: The column that orders states of the same time, or None.
        fields: The fields to compare, by column; see `Write.compared_fields`.
        hidden: Type of each stored column that new rows lack, completely or in some struct fields.
    """

    types: Mapping[str, str]
    key: tuple[str, ...]
    time: str
    source: str | None
    compare: tuple[str, ...]
    set_key: tuple[str, ...]
    repeats: str
    deletion_mark: str | None = None
    sequence: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)

    @property
    def moment(self) -> tuple[str, ...]:
        """The columns that order the states of a key in time."""
        return (self.time,) if self.sequence is None else (self.time, self.sequence)

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that together identify a row of the table."""
        return (*self.key, *self.moment, *self.set_key)

    @property
    def data(self) -> list[str]:
        """The columns that come from the model's query. The kind adds the other columns."""
        return [name for name in self.types if name not in (self.repeats, self.deletion_mark)]

    def unique_rows(self, new: str, old: str | None) -> str:
        """Write the query that unites new and stored rows, and keeps one row for each `identity`.

        Args:
            new: The relation of arriving rows.
            old: The table with earlier rows of the same keys; None if that table is empty.
        """
        names, lacking, having = _quoted(self.data), "", ""
        if self.hidden:
            values = (Write.sortable(quote(n), type_) for n, type_ in self.hidden.items())
            lacking = ", NULL AS vde_hidden"
            having = f", STRUCT({', '.join(values)}) AS vde_hidden"
        rows = f"SELECT {names}{lacking} FROM {new}"
        if old is not None:
            known = self._affected(old, new)
            if self.deletion_mark is not None:
                known = f"SELECT * FROM ({known}) vde_known WHERE NOT {quote(self.deletion_mark)}"
            made = {self.time: f"CAST(vde_at.at AS {self.types[self.time]})"}
            if self.source is not None:
                made[self.source] = f"CAST(vde_at.source AS {self.types[self.source]})"
            if self.sequence is not None:
                made[self.sequence] = f"CAST(vde_at.sequence AS {self.types[self.sequence]})"
            columns = ", ".join(f"{made.get(n, quote(n))} AS {quote(n)}" for n in self.data)
            rows += (
                f" UNION ALL SELECT {names}{having} FROM ({known}) vde_kept "
                f"UNION ALL SELECT {columns}{having} FROM (SELECT *, "
                f"EXPLODE({quote(self.repeats)}) AS vde_at FROM ({known}) vde_kept) vde_exploded"
            )
        names += ", vde_hidden" if self.hidden else ""
        first = (self.source,) if self.source is not None else ()
        # Versions leave out the order of `compare`.
        compare = (name for name in self.data if name in self.compare)
        least = dict.fromkeys((*first, *compare, *self.data))
        ranks = [self._compared(name) for name in least if name not in self.identity]
        # A stored row that arrives again keeps its hidden values.
        ranks += ["vde_hidden IS NULL"] if self.hidden else []
        order = f"STRUCT({', '.join(ranks)})" if ranks else quote(self.time)
        by = f"PARTITION BY {_quoted(self.identity)}"
        compared = [self._compared(name) for name in self.compare]
        state = f"STRUCT({', '.join(compared)})" if compared else "TRUE"
        several = f"MIN({state}) OVER ({by}) <> MAX({state}) OVER ({by})"
        return (
            f"SELECT {names}, {SEVERAL_STATES} FROM (SELECT {names}, ROW_NUMBER() OVER ({by} "
            f"ORDER BY {order}) AS vde_row_number, {several} AS {SEVERAL_STATES} "
            f"FROM ({rows}) vde_came) vde_ranked WHERE vde_row_number = 1"
        )

    def count_discarded(self, unique: str) -> str:
        """Write the query that counts the times at which several states of one key arrived.

        Args:
            unique: The relation with the result of `unique_rows`, here and in the methods below.
        """
        return f"SELECT COUNT(*) FROM {unique} WHERE {SEVERAL_STATES}"

    def gaps(self, unique: str) -> str:
        """Write the query that finds where a key begins to be missing from the deliveries.

        Each row has a key and the time of the first delivery without it.
        """
        key, time = _quoted(self.key), quote(self.time)
        steps = {
            "vde_keys": f"SELECT DISTINCT {key}, {time} FROM {unique}",
            "vde_deliveries": (
                f"SELECT {time}, ROW_NUMBER() OVER (ORDER BY {time}) AS vde_number "
                f"FROM (SELECT DISTINCT {time} FROM {unique}) vde_times"
            ),
            "vde_numbered": (
                f"SELECT {_quoted(self.key, 'k.')}, d.vde_number, LEAD(d.vde_number) OVER "
                f"(PARTITION BY {_quoted(self.key, 'k.')} ORDER BY d.vde_number) AS vde_next "
                f"FROM vde_keys k JOIN vde_deliveries d ON k.{time} = d.{time}"
            ),
        }
        return _with_steps(
            steps,
            f"SELECT {_quoted(self.key, 'n.')}, d.{time} FROM vde_numbered n "
            "JOIN vde_deliveries d ON d.vde_number = n.vde_number + 1 "
            "WHERE n.vde_next IS NULL OR n.vde_next > n.vde_number + 1",
        )

    def states(self, unique: str, gaps: str | None = None) -> str:
        """Write the query that computes the table's rows: the changes of state, and the deletions.

        Args:
            gaps: The relation with the result of `gaps`; None if keys are never deleted.
        """
        first = [name for name in self.data if name not in (*self.key, *self.set_key)]
        by = (
            _quoted(self.key, "o.")
            + ", r.vde_run"
            + "".join(f", o.{quote(c)}" for c in self.set_key)
        )
        source = "NULL" if self.source is None else f"o.{quote(self.source)}"
        at = f"CAST(o.{quote(self.time)} AS TIMESTAMP) AS at, CAST({source} AS STRING) AS source"
        if self.sequence is not None:
            at += f", CAST(o.{quote(self.sequence)} AS STRING) AS sequence"
        moment = self._moment("o.")
        grouped = (
            f"SELECT {_quoted((*self.key, *self.set_key), 'o.')}, "
            f"MIN_BY(STRUCT({_quoted(first, 'o.')}), {moment}) AS vde_first, "
            f"SORT_ARRAY(COLLECT_LIST(STRUCT({at})) "
            f"FILTER (WHERE {moment} > r.vde_begin)) AS vde_again "
            f"FROM {unique} o JOIN vde_runs r ON {_equal((*self.key, *self.moment), 'o', 'r')} "
            f"GROUP BY {by}"
        )
        made = {name: f"vde_first.{quote(name)}" for name in first}
        made[self.repeats] = "vde_again"
        if self.deletion_mark is not None:
            made[self.deletion_mark] = "FALSE"
        columns = (f"{made.get(n, quote(n))} AS {quote(n)}" for n in self.types)
        query = f"SELECT {', '.join(columns)} FROM ({grouped}) vde_grouped"
        if self.deletion_mark is not None:
            gone = {name: quote(name) for name in (*self.key, self.time)}
            gone[self.deletion_mark] = "TRUE"
            columns = (
                f"{gone.get(n) or f'CAST(NULL AS {type_})'} AS {quote(n)}"
                for n, type_ in self.types.items()
            )
            query += f" UNION ALL SELECT {', '.join(columns)} FROM {gaps}"
        return _with_steps(self._runs(unique, gaps), query)

    def merge(self, target: str, new: str, states: str) -> str:
        """Write the MERGE that makes a table equal to the computed states of the affected keys."""
        others = [name for name in self.types if name not in self.identity]
        on = " AND ".join(f"f.{quote(c)} <=> o.{quote(c)}" for c in self.identity)
        made = [f"COALESCE(f.{quote(c)}, o.{quote(c)}) AS {quote(c)}" for c in self.identity]
        made += [f"f.{quote(c)} AS {quote(c)}" for c in others]
        same = " AND ".join(
            f"{Write.sortable(f'f.{quote(c)}', self.types[c])} <=> "
            f"{Write.sortable(f'o.{quote(c)}', self.types[c])}"
            for c in others
        )
        old = f"SELECT *, TRUE AS vde_there FROM ({self._affected(target, new)}) vde_affected"
        rows = (
            f"SELECT {', '.join(made)}, f.vde_there IS NULL AS vde_gone "
            f"FROM (SELECT *, TRUE AS vde_there FROM {states}) f "
            f"FULL OUTER JOIN ({old}) o ON {on} "
            f"WHERE f.vde_there IS NULL OR o.vde_there IS NULL OR NOT ({same})"
        )
        matched = " AND ".join(f"target.{quote(c)} <=> source.{quote(c)}" for c in self.identity)
        sets = ", ".join(f"{quote(c)} = source.{quote(c)}" for c in others)
        return (
            f"MERGE INTO {target} AS target\nUSING ({rows}) AS source\nON {matched}\n"
            "WHEN MATCHED AND source.vde_gone THEN DELETE\n"
            f"WHEN MATCHED THEN UPDATE SET {sets}\n"
            f"WHEN NOT MATCHED THEN INSERT ({_quoted(self.types)}) "
            f"VALUES ({_quoted(self.types, 'source.')})"
        )

    def deletions(self, new: str, unique: str, gaps: str) -> str:
        """Write the query that counts the deleted keys for each newly arrived time.

        Columns: the time, the number of deleted keys, and the number of keys at the previous time.
        """
        time = quote(self.time)
        return (
            f"SELECT CAST(d.{time} AS STRING), g.vde_gone, d.vde_present "
            f"FROM (SELECT {time}, LAG(COUNT(*)) OVER "
            f"(ORDER BY {time}) AS vde_present FROM (SELECT DISTINCT {_quoted(self.key)}, {time} "
            f"FROM {unique}) vde_keys GROUP BY {time}) d "
            f"JOIN (SELECT {time}, COUNT(*) AS vde_gone FROM {gaps} GROUP BY {time}) g "
            f"ON g.{time} = d.{time} "
            f"WHERE d.{time} IN (SELECT {time} FROM {new}) ORDER BY d.{time}"
        )

    def _runs(self, unique: str, gaps: str | None) -> dict[str, str]:
        """Write the CTEs that number each key's runs: successive times with the same state."""
        key, moment = _quoted(self.key), _quoted(self.moment)
        signature = ", ".join(map(self._compared, (*self.set_key, *self.compare)))
        over = f"OVER (PARTITION BY {key} ORDER BY {moment})"
        hidden, none, kept = "", "", ""
        if self.hidden:
            hidden = (
                ", CASE WHEN COUNT(vde_hidden) > 0 THEN SORT_ARRAY(COLLECT_LIST(vde_hidden)) END "
                "AS vde_kept"
            )
            none, kept = ", NULL AS vde_kept", ", vde_kept"
        groups = (
            f"SELECT {key}, {moment}, SORT_ARRAY(COLLECT_LIST(STRUCT({signature or 'TRUE'}))) "
            f"AS vde_state{hidden} FROM {unique} GROUP BY {key}, {moment}"
        )
        if gaps is not None:
            groups += f" UNION ALL SELECT {key}, {moment}, NULL AS vde_state{none} FROM {gaps}"
        steps = {
            "vde_marks": (
                f"SELECT {key}, {moment}{kept}, CASE WHEN LAG({quote(self.time)}) {over} IS NULL "
                f"OR NOT (vde_state <=> LAG(vde_state) {over}) THEN 1 ELSE 0 END AS vde_changed "
                f"FROM ({groups}) vde_all"
            ),
            "vde_numbers": (
                f"SELECT {key}, {moment}{kept}, SUM(vde_changed) {over} AS vde_run FROM vde_marks"
            ),
        }
        numbers = "vde_parts" if self.hidden else "vde_numbers"
        if self.hidden:
            # Stored states of one run that differ only in hidden values stay apart.
            before = (
                f"OVER (PARTITION BY {key}, vde_run ORDER BY {moment} "
                "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
            )
            steps["vde_differences"] = (
                f"SELECT {key}, {moment}, vde_run, CASE WHEN vde_kept <> LAST_VALUE(vde_kept) "
                f"IGNORE NULLS {before} THEN 1 ELSE 0 END AS vde_differs FROM vde_numbers"
            )
            steps["vde_parts"] = (
                f"SELECT {key}, {moment}, vde_run + SUM(vde_differs) {over} AS vde_run "
                "FROM vde_differences"
            )
        return {
            **steps,
            "vde_runs": (
                f"SELECT {key}, {moment}, vde_run, MIN({self._moment()}) OVER "
                f"(PARTITION BY {key}, vde_run) AS vde_begin FROM {numbers}"
            ),
        }

    def _compared(self, name: str) -> str:
        return Write.sortable(quote(name), self.types[name], self.fields.get(name))

    def _moment(self, side: str = "") -> str:
        names = _quoted(self.moment, side)
        return names if self.sequence is None else f"STRUCT({names})"

    def _affected(self, old: str, new: str) -> str:
        # If keys can be deleted, all rows are affected. Otherwise only the rows of arriving keys
        # are.
        if self.deletion_mark is not None:
            return f"SELECT * FROM {old}"
        on = _equal(self.key, "o", "n")
        return (
            f"SELECT o.* FROM {old} o LEFT SEMI JOIN "
            f"(SELECT DISTINCT {_quoted(self.key)} FROM {new}) n ON {on}"
        )


def _quoted(names: Sequence[str] | Mapping[str, str], prefix: str = "") -> str:
    return ", ".join(f"{prefix}{quote(name)}" for name in names)


def _with_steps(steps: Mapping[str, str], query: str) -> str:
    return f"WITH {', '.join(f'{name} AS ({text})' for name, text in steps.items())} {query}"


def _equal(names: Sequence[str], left: str, right: str) -> str:
    return " AND ".join(f"{left}.{quote(name)} = {right}.{quote(name)}" for name in names)


def make_states(
    kind: Changes, types: Mapping[str, str], physical: Mapping[str, str] | None = None
) -> States:
    def at(name: str) -> str:
        return name if physical is None else physical[name.lower()]

    made = States(
        types,
        key=tuple(map(at, kind.key)),
        time=at(kind.time),
        source=at(kind.source) if kind.source else None,
        compare=tuple(map(at, kind.compare)),
        set_key=tuple(map(at, kind.set_key)),
        repeats=at(AGAIN),
        deletion_mark=at(DELETED) if kind.deletes else None,
        sequence=at(kind.sequence) if kind.sequence else None,
    )
    if kind.compare:
        return made
    known = (*made.identity, made.source)
    return replace(made, compare=tuple(name for name in made.data if name not in known))


class ChangesWriter(Strategy):
    """Recomputes the states of arriving keys, and merges the differences into the table."""

    own_session = True

    def digests_table(self, write: Write) -> bool:
        # Most arriving rows are equal to stored rows.
        return True

    def layout(self, snapshot: Snapshot, types: Mapping[str, str]) -> Layout:
        return Layout(properties={"write.merge.mode": "merge-on-read"})

    def write(self, write: Write) -> None:
        """Merge the new rows into the table, and retry if another commit was faster.

        Raises:
            ExecutionError: A required column has NULL, the time has a wrong type, or too many keys
                are deleted.
        """
        kind = Changes.from_model(write.task.snapshot.model)
        for name in kind.named_columns:
            write.physical_name(name)
        check_time(write, kind.time)
        states = make_states(kind, write.types, write.physical)
        fields = write.compared_fields()
        hidden = {n: t for n, t in write.frame_types.items() if n not in write.types or n in fields}
        states = replace(states, fields=fields, hidden=hidden)
        # Rows are read several times, and a query may not return the same ones twice. Unlike
        # `persist`, a checkpoint lets Spark join small partitions, which would become files.
        there = [f"{quote(write.physical_name(name))} IS NOT NULL" for name in kind.skip_null]
        came = write.frame.where(" AND ".join(there) or "TRUE").select(*map(quote, states.data))
        came = came.localCheckpoint()
        with write.source(came) as source, write.committing(), write.in_utc():
            _check_nulls(write, kind, states, source)
            # States are computed from the table, which must not change until the merge. So the work
            # is done on a branch without other writers, and retried if another commit was faster.
            write.staged(lambda staging: _write(write, kind, states, source, staging), "merged")


def _check_nulls(write: Write, kind: Changes, states: States, source: str) -> None:
    nulls = ", ".join(f"BOOL_OR({quote(column)} IS NULL)" for column in states.identity)
    (found,) = write.session.sql(f"SELECT {nulls} FROM {source}").collect()
    for name, is_null in zip(kind.identity, found, strict=True):
        if is_null:
            raise null_error(write, name)


def _write(write: Write, kind: Changes, states: States, source: str, staging: str) -> None:
    first = write.task.anew or not write.table.was_filled(staging)
    target = write.target(staging)
    states = replace(states, hidden={}) if first else states
    sql = write.session.sql
    with ExitStack() as kept:

        def computed_once(query: str) -> str:
            return kept.enter_context(write.source(sql(query).localCheckpoint()))

        rows = states.unique_rows(source, None if first else target)
        unique = computed_once(rows)
        gaps = None
        if kind.deletes:
            gaps = computed_once(states.gaps(unique))
            _check_deletions(write, kind, states.deletions(source, unique, gaps))
        (discarded,) = sql(states.count_discarded(unique)).collect()[0]
        if discarded:
            write.notes.append(_warn_of_several_states(write, kind, discarded))
        rows = states.states(unique, gaps)
        if first:
            write.overwrite(sql(rows), staging)
        else:
            sql(states.merge(target, source, computed_once(rows)))


def _warn_of_several_states(write: Write, kind: Changes, number: int) -> str:
    moment = "load date" if kind.sequence is None else f"load date and {kind.sequence}"
    what = f"({', '.join((*kind.key, *kind.set_key))})"
    hint = (
        "set `sequence` to a column that orders them"
        if kind.sequence is None and not kind.deletes
        else f"let the source deliver the states of {what} with different times"
    )
    return (
        f"{write.task.snapshot.name} {write.task.interval.text}: several states of one {what} "
        f"arrived at one {moment} ({count(number, 'time')}); only one of them is kept. "
        f"To keep them all, {hint}"
    )


def _check_deletions(write: Write, kind: Changes, query: str) -> None:
    for time, gone, present in write.session.sql(query).collect():
        # Unlike the product, the quotient is the same number as a share that a header writes.
        if gone / present > kind.most_deleted:
            model = write.task.snapshot.model
            raise ExecutionError(
                f"{model.name} {write.task.interval.text}: the delivery of {time} lacks {gone} of "
                f"{count(present, 'key')}, more than most_deleted ({kind.most_deleted:g}) allows",
                hint="load the whole delivery; if these keys were deleted, increase most_deleted",
                location=model.location,
            )
