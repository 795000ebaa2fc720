"""`@STAGE`: the query of a vault's stage: derived columns, values for NULL, hashes, ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from vde_dagster.api.values import quote, suggest

if TYPE_CHECKING:
    from sqlglot import exp

    from vde_dagster.api.sql import SQL, MacroEvaluator


_NULLS = {"required": "-1", "optional": "-2"}
"""Values that replace NULL if `vault_null_required` and `vault_null_optional` are not set."""
_ORIGINAL = "_original"
"""Suffix of the column that keeps the original value where NULL is replaced."""
_ALL_EXCEPT = "all_except"


def stage(
    evaluator: MacroEvaluator,
    source: SQL,
    derived: SQL | None = None,
    hashed: SQL | None = None,
    columns: list[str] | None = None,
    null_required: list[str] | None = None,
    null_optional: list[str] | None = None,
    hashdiffs: SQL | None = None,
    ranked: SQL | None = None,
) -> str:
    """`@STAGE(source, derived := (… AS a), hashed := (@HASH_KEY(a) AS hk))`: a stage's query.

    Args:
        source: A table, or a query in brackets.
        derived: Named expressions over the source's columns, such as load date, record source, and
            keys prepared for hashing. An expression with a column's name replaces the column.
        hashed: Expressions over the source's columns and the derived columns.
        columns: Selected columns of the source; by default all.
        null_required, null_optional: Columns whose NULLs get a default value. A further column
            with the suffix `_original` keeps the source's value.
        hashdiffs: `ALL_EXCEPT(a, b) AS name`: a hashdiff of the source's other columns.
        ranked: Named window expressions over all columns above.
    """
    made, hashes, ranks = _strip_brackets(derived), _strip_brackets(hashed), _strip_brackets(ranked)
    new = _aliases(evaluator, "derived", made)
    hash_names = list(_aliases(evaluator, "hashed", hashes).values())
    rank_names = _aliases(evaluator, "ranked", ranks)
    types = evaluator.columns_to_types(source) if columns is None else {}
    known = list(types) if columns is None else columns
    kept = [quote(name) for name in known if name.lower() not in new]
    names = [*kept, *map(quote, new.values())]
    query = f"SELECT {', '.join([*kept, *([made] if made else [])])} FROM {source}"
    values = _null_values(evaluator, names, null_required or [], null_optional or [])
    if values:
        listed = []
        for name in names:
            value = values.get(name.strip("`").lower())
            if value is not None:
                own = name.strip("`")
                type_ = types.get(own) if own.lower() not in new else None
                listed.append(f"{_replace_null(evaluator, name, value, type_)} AS {name}")
                listed.append(f"{name} AS {quote(own + _ORIGINAL)}")
            else:
                listed.append(name)
        query = f"SELECT {', '.join(listed)} FROM ({query}) AS derived"
        names += [quote(name.strip("`") + _ORIGINAL) for name in names if _bare(name) in values]
    every = list(map(_bare, [quote(name) for name in known]))
    diffs = _hashdiffs(evaluator, _strip_brackets(hashdiffs), every)
    if hashes or diffs:
        both = ", ".join([*([hashes] if hashes else []), *(f"{t} AS {n}" for n, t in diffs)])
        query = f"SELECT {', '.join(names)}, {both} FROM ({query}) AS stage"
        names += [*map(quote, hash_names), *(name for name, _ in diffs)]
    if rank_names:
        query = f"SELECT {', '.join(names)}, {ranks} FROM ({query}) AS hashed"
    return query


def _bare(name: str) -> str:
    return name.strip("`").lower()


def _null_values(
    evaluator: MacroEvaluator, names: list[str], required: list[str], optional: list[str]
) -> dict[str, str]:
    found: dict[str, str] = {}
    there = [name.strip("`") for name in names]
    for kind, columns in (("required", required), ("optional", optional)):
        value = str(evaluator.var(f"vault_null_{kind}", _NULLS[kind]))
        for column in columns:
            if column.lower() not in map(str.lower, there):
                raise evaluator.error(
                    f"@STAGE: the column '{column}' in null_{kind} does not exist",
                    suggest(column, there, "columns"),
                )
            if column.lower() in found:
                raise evaluator.error(
                    f"@STAGE has '{column}' twice in null_required and null_optional", "choose one"
                )
            found[column.lower()] = value
    return found


def _replace_null(
    evaluator: MacroEvaluator, name: str, value: str, type_: exp.DataType | None
) -> str:
    """Write a column with `value` in place of NULL, cast to the column's type if it is known."""
    from sqlglot import exp

    text = exp.Literal.string(value).sql("spark")
    if type_ is None or type_.this == exp.DType.UNKNOWN or type_.this in exp.DataType.TEXT_TYPES:
        return f"COALESCE({name}, {text})"
    if type_.this not in exp.DataType.NUMERIC_TYPES:
        raise evaluator.error(
            f"@STAGE: {name} is of type {type_.sql('spark')}, which has no value {text}",
            "derive a text column from it, and replace NULL there",
        )
    return f"COALESCE({name}, CAST({text} AS {type_.sql('spark')}))"


def _hashdiffs(evaluator: MacroEvaluator, text: str, columns: list[str]) -> list[tuple[str, str]]:
    """Return (name, Spark SQL) of each hashdiff in a text such as `ALL_EXCEPT(a, b) AS name`."""
    from sqlglot import exp

    from vde_dagster.plugins.vault.hashing import hashdiff

    found = []
    for one in evaluator.parse_one(f"SELECT {text}").expressions if text else ():
        call = one.unalias()
        if not isinstance(one, exp.Alias) or call.name.lower() != _ALL_EXCEPT:
            raise evaluator.error(
                f"@STAGE cannot read '{one.sql('spark')}' in 'hashdiffs'",
                "write hashdiffs := (ALL_EXCEPT(a, b) AS hashdiff)",
            )
        left_out = [column.name.lower() for column in call.expressions]
        unknown = [name for name in left_out if name not in columns]
        if unknown:
            raise evaluator.error(
                f"@STAGE: the source lacks the column '{unknown[0]}' in ALL_EXCEPT",
                suggest(unknown[0], columns, "columns"),
            )
        compared = [quote(name) for name in columns if name not in left_out]
        if not compared:
            raise evaluator.error(f"@STAGE: no column is left for {one.alias}", "exclude fewer")
        found.append((quote(one.alias), hashdiff(evaluator, *cast("list[SQL]", compared))))
    return found


def _strip_brackets(text: str | None) -> str:
    text = (text or "").strip()
    return text[1:-1].strip() if text.startswith("(") else text


def _aliases(evaluator: MacroEvaluator, argument: str, text: str) -> dict[str, str]:
    from sqlglot import exp

    found: dict[str, str] = {}
    for one in evaluator.parse_one(f"SELECT {text}").expressions if text else ():
        if not isinstance(one, exp.Alias):
            raise evaluator.error(
                f"@STAGE: '{one.sql('spark')}' in '{argument}' has no name",
                f"write {argument} := (expression AS name, …)",
            )
        found[one.alias.lower()] = one.alias
    return found
