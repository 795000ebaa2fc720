"""INCREMENTAL_BY_UNIQUE_KEY: the interval's rows are merged on their key."""

from __future__ import annotations

from collections.abc import Mapping

from vde_dagster.base.names import quote
from vde_dagster.errors import ExecutionError
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.kinds import IncrementalByUniqueKey
from vde_dagster.project.kinds.unique_key import ALL, DELETE_INSERT, SIDES
from vde_dagster.spark.strategies.base import Layout, Strategy, Write, latest_first, strategy_for
from vde_dagster.spark.strategies.changed_keys import changed_keys, select_rows
from vde_dagster.sql.expressions import read_expression

_NUMBER = "vde_row_number"


@strategy_for(IncrementalByUniqueKey)
class UniqueKey(Strategy):
    """Inserts new keys and replaces rows with existing keys, in one MERGE.

    NULL keys are equal. If a key has several new rows, `latest_first` chooses one. With a strategy
    of dbt, all new rows of a key are written, and NULL keys are equal only with `nulls_match`.
    """

    own_session = True

    def digests_table(self, write: Write) -> bool:
        return True

    def layout(self, snapshot: Snapshot, types: Mapping[str, str]) -> Layout:
        """Return a layout with serializable isolation: Iceberg refuses a MERGE after a conflict."""
        return Layout(
            properties={
                "write.merge.mode": "merge-on-read",
                "write.merge.isolation-level": "serializable",
            }
        )

    def write(self, write: Write) -> None:
        """Merge the rows, and retry if another commit conflicted.

        Raises:
            ExecutionError: Several new rows match one table row, with dbt's strategy `merge`.
        """
        kind = IncrementalByUniqueKey.from_model(write.task.snapshot.model)
        with (
            changed_keys(write) as keys,
            write.source(select_rows(write, keys)) as source,
            write.lock,
        ):
            names = ", ".join(map(quote, write.types))
            rows = (
                f"SELECT {names} FROM {source}"
                if kind.strategy
                else _distinct_keys(write, kind, source)
            )
            if write.task.anew:
                # The table may have keys for which no source has rows now.
                frame = write.session.sql(rows)
                write.overwrite(frame, write.task.branch)
                return
            if kind.strategy == DELETE_INSERT:
                merge = _replace_keys(write, kind, source)
            else:
                merge = _merge_statement(write, kind, rows)
            with write.committing():
                try:
                    write.merge(merge)
                except Exception as error:
                    if kind.strategy and _DUPLICATE_MATCH in str(error):
                        raise _duplicate_error(write, kind) from error
                    raise


_DUPLICATE_MATCH = "MERGE_CARDINALITY_VIOLATION"
_ACT = "vde_act"


def _duplicate_error(write: Write, kind: IncrementalByUniqueKey) -> ExecutionError:
    model = write.task.snapshot.model
    key = ", ".join((*kind.unique_key, *kind.key_expressions))
    return ExecutionError(
        f"{model.name}: the query returns several rows of one unique_key ({key}), but the "
        "strategy 'merge' cannot update one row of the table with several",
        hint="return one row per unique_key, or set incremental_strategy='delete+insert' to keep "
        "all rows",
        location=model.location,
    )


def _match_conditions(write: Write, kind: IncrementalByUniqueKey) -> list[str]:
    named = {name.lower(): quote(write.physical_name(name)) for name in kind.merge_columns}
    equal = "=" if kind.strategy and not kind.nulls_match else "<=>"
    keys = [write.physical_name(name) for name in kind.unique_key]
    on = [f"target.{quote(key)} {equal} source.{quote(key)}" for key in keys]
    for text in kind.key_expressions:
        target, new = (_with_physical_names(text, named, side) for side in ("target", "source"))
        on.append(f"({target}) {equal} ({new})")
    if kind.merge_filter:
        on.append(f"({_rename_sides(kind.merge_filter, dict.fromkeys(SIDES, named))})")
    return on


def _replace_keys(write: Write, kind: IncrementalByUniqueKey, source: str) -> str:
    """Write the MERGE that deletes all rows with a key of the new rows, and adds the new rows."""
    parts = _key_parts(write, kind)
    names = ", ".join(map(quote, write.types))
    numbered = (
        f"SELECT {names}, ROW_NUMBER() OVER (PARTITION BY {', '.join(parts)} "
        f"ORDER BY {parts[0]}) AS {_NUMBER} FROM {source}"
    )
    # The first new row of each key is used for both, so that the source is read only once.
    acts = f"EXPLODE(IF({_NUMBER} = 1, ARRAY('delete', 'insert'), ARRAY('insert'))) AS {_ACT}"
    return "\n".join(
        [
            f"MERGE INTO {write.target(write.task.branch)} target",
            f"USING (SELECT {names}, {acts} FROM ({numbered})) source",
            f"ON source.{_ACT} = 'delete' AND {' AND '.join(_match_conditions(write, kind))}",
            "WHEN MATCHED THEN DELETE",
            f"WHEN NOT MATCHED AND source.{_ACT} = 'insert' THEN INSERT ({names})",
            f"VALUES ({', '.join(f'source.{quote(c)}' for c in write.types)})",
        ]
    )


def _merge_statement(write: Write, kind: IncrementalByUniqueKey, rows: str) -> str:
    columns = list(write.types)
    named = {name.lower(): quote(write.physical_name(name)) for name in kind.merge_columns}
    sides = dict.fromkeys(SIDES, named)
    matched = []
    for when, assigned in kind.when_matched or (("", ((ALL, ALL),)),):
        given = {named[c.lower()]: _rename_sides(text, sides) for c, text in assigned if c != ALL}
        if (ALL, ALL) in assigned:
            given = {quote(c): f"source.{quote(c)}" for c in columns} | given
        sets = ", ".join(f"target.{column} = {value}" for column, value in given.items())
        only = f" AND ({_rename_sides(when, sides)})" if when else ""
        action = f"UPDATE SET {sets}" if assigned else "DELETE"
        matched.append(f"WHEN MATCHED{only} THEN {action}")
    return "\n".join(
        [
            f"MERGE INTO {write.target(write.task.branch)} target",
            f"USING ({rows}) source",
            f"ON {' AND '.join(_match_conditions(write, kind))}",
            *matched,
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(map(quote, columns))})",
            f"VALUES ({', '.join(f'source.{quote(c)}' for c in columns)})",
        ]
    )


def _distinct_keys(write: Write, kind: IncrementalByUniqueKey, source: str) -> str:
    """Write the query of the rows to merge, with one row of the source for each key."""
    types, keys = write.types, [write.physical_name(name) for name in kind.unique_key]
    by = ", ".join(_key_parts(write, kind))
    order = latest_first(types, [name for name in types if name not in keys] or keys)
    names = ", ".join(map(quote, types))
    return (
        f"SELECT {names} FROM (SELECT {names}, "
        f"ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {order}) AS {_NUMBER} FROM {source}) "
        f"WHERE {_NUMBER} = 1"
    )


def _key_parts(write: Write, kind: IncrementalByUniqueKey) -> list[str]:
    named = {name.lower(): quote(write.physical_name(name)) for name in kind.merge_columns}
    keys = [write.physical_name(name) for name in kind.unique_key]
    columns = [Write.sortable(quote(key), write.types[key]) for key in keys]
    return columns + [_with_physical_names(text, named) for text in kind.key_expressions]


def _with_physical_names(text: str, named: Mapping[str, str], side: str = "") -> str:
    prefix = f"{side}." if side else ""
    return read_expression(text).renamed({name: prefix + new for name, new in named.items()})


def _rename_sides(text: str, sides: Mapping[str, Mapping[str, str]]) -> str:
    return text if text in ("", ALL) else read_expression(text).renamed_sides(sides)
