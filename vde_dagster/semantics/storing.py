"""Which types of values a column takes: Spark's rules of store assignment, for tables of Iceberg.

They are those of ANSI whatever a session says, or stricter ones: the lax ones are for other tables.
"""

from __future__ import annotations

from sqlglot import exp

from vde_dagster.semantics._sqlglot import data_type

_D = exp.DType
_NUMBER, _TEXT, _TIME, _TRUTH = "number", "text", "time", "truth"
_GROUPS = {
    kind: group
    for group, kinds in {
        _NUMBER: (_D.TINYINT, _D.SMALLINT, _D.INT, _D.BIGINT, _D.FLOAT, _D.DOUBLE, _D.DECIMAL),
        _TEXT: (_D.TEXT, _D.VARCHAR, _D.CHAR),
        _TIME: (_D.DATE, _D.TIMESTAMP, _D.TIMESTAMPTZ, _D.TIMESTAMPLTZ, _D.TIMESTAMPNTZ),
        _TRUTH: (_D.BOOLEAN,),
        "array": (_D.ARRAY,),
        "map": (_D.MAP,),
        "struct": (_D.STRUCT,),
    }.items()
    for kind in kinds
}
_INTO_TEXT = frozenset({_NUMBER, _TEXT, _TIME, _TRUTH})


def is_refused(value: str, column: str) -> bool:
    """Say whether Spark certainly refuses to store values of one type in a column of another.

    >>> is_refused("STRING", "INT"), is_refused("INT", "STRING"), is_refused("UNKNOWN", "INT")
    (True, False, False)
    >>> is_refused("BIGINT", "INT"), is_refused("DATE", "TIMESTAMP"), is_refused("INT", "BOOLEAN")
    (False, False, True)

    Args:
        value: Spark SQL type of the values.
        column: Spark SQL type of the column.
    """
    types = data_type(value), data_type(column)
    groups = [_GROUPS.get(kind.this) if kind is not None else None for kind in types]
    if None in groups or groups[0] == groups[1]:
        return False  # What is inside of arrays, maps and structs is left to Spark.
    return not (groups[1] == _TEXT and groups[0] in _INTO_TEXT)
