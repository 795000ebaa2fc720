"""Names of tables in compiled code: ephemeral models, the model of a test, inputs of microbatches.

dbt inserts an ephemeral model's query into each reader's code as `WITH __dbt__cte__x AS (…)`. Here
an ephemeral model is a separate model: the inserted query is removed, and readers name the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from vde_dagster.api.sql import Edit, Expanded, SourceText, Token, placeholder

CLAUSES = frozenset(
    {"where", "join", "left", "right", "inner", "outer", "full", "cross", "natural", "on", "using"}
    | {"group", "order", "having", "limit", "union", "except", "intersect", "minus", "qualify"}
    | {"window", "lateral", "semi", "anti", "asof", "positional", "tablesample", "pivot"}
    | {"unpivot", "fetch", "offset", "for", "cluster", "distribute", "sort"}
)
"""Words that may follow a table without an alias."""
_BACKTICKS = frozenset({"spark", "databricks", "bigquery", "mysql", "hive"})


def quote_name(parts: Sequence[str], dialect: str) -> str:
    """Quote and join the parts of a name, as a dialect does."""
    if dialect == "tsql" or dialect == "fabric":
        return ".".join(f"[{part}]" for part in parts)
    mark = "`" if dialect in _BACKTICKS else '"'
    return ".".join(mark + part.replace(mark, mark * 2) + mark for part in parts)


def replace_ephemeral(
    source: SourceText, ephemeral: Mapping[str, Sequence[str]], dialect: str
) -> Expanded:
    """Replace the inserted queries of ephemeral models in compiled code with names of tables.

    Args:
        ephemeral: The names of ephemeral models, in parts, by the names of their CTEs.

    Raises:
        ProjectError: A bracket, string or comment is not closed.
    """
    code = Expanded(source.text, ((0, 0),))
    if not any(name in source.text for name in ephemeral):
        return code
    tokens = Token.split(source, dialect)
    edits, inside = _remove_ctes(source, tokens, ephemeral)
    names = {name.lower(): name for name in ephemeral}
    at = [
        i
        for i, token in enumerate(tokens)
        if token.text.strip('`"[]').lower() in names
        and not any(edit.start <= token.start < edit.end for edit in inside)
    ]

    def table(text: str) -> str:
        return quote_name(ephemeral[names[text.strip('`"[]').lower()]], dialect)

    return code.edited([*edits, *_rename_tables(source.text, tokens, at, table)])


def _remove_ctes(
    source: SourceText, tokens: list[Token], ephemeral: Mapping[str, Sequence[str]]
) -> tuple[list[Edit], list[Edit]]:
    """Return edits that remove the CTEs of ephemeral models, and also WITH if no CTE remains."""
    first = 1
    if not tokens or not tokens[0].is_word("WITH"):
        return [], []
    if len(tokens) > 1 and tokens[1].is_word("RECURSIVE"):
        first = 2
    known = {name.lower() for name in ephemeral}
    index = first
    while (
        index + 2 < len(tokens)
        and tokens[index].text.lower() in known
        and tokens[index + 1].is_word("AS")
        and tokens[index + 2].text == "("
    ):
        index = source.closing(tokens, index + 2) + 1
        if index < len(tokens) and tokens[index].text == ",":
            index += 1
        else:
            first = 0  # No other definition: WITH is removed, too.
            break
    if index <= 1 or index == first:
        return [], []
    end = tokens[index].start if index < len(tokens) else len(source.text)
    edit = Edit(tokens[first].start, end, "")
    return [edit], [edit]


def replace_relation(code: Expanded, relation: str, this_model: str, name: str) -> Expanded:
    """Replace a relation in compiled code with another table or query.

    Args:
        relation: The relation as dbt writes it.
        this_model: The replacement.
        name: The relation's last part, which becomes the replacement's alias if the code qualifies
            columns with it.
    """
    whole = re.compile(rf'(?<![\w.`"]){re.escape(relation)}(?![\w`"])')
    return code.edited(
        Edit(found.start(), found.end(), this_model + _alias_if_needed(found, whole, name))
        for found in whole.finditer(code.text)
    )


def _alias_if_needed(found: re.Match[str], tables: re.Pattern[str], name: str) -> str:
    """Return the alias of a replaced table if other code qualifies columns with its name."""
    called = rf'(?<![\w.`"])[`"]?{re.escape(name)}[`"]?\s*\.'
    if not re.search(called, tables.sub("", found.string), re.IGNORECASE):
        return ""
    return _alias_unless_present(found.string[found.end() :], name)


def filter_by_interval(code: Expanded, relation: str, column: str) -> Expanded:
    """Restrict a relation in code to its rows in the interval, by a time column."""
    return replace_relation(code, relation, _filtered_rows(relation, column), _last_part(relation))


_LIMITED = re.compile(
    r"\(select \* from (?P<relation>[^()\n]+) where (?:false limit 0|1=0)\)"
    r"(?: \[?_dbt_limit_subq_\w+\]?)?"
)
"""A relation with the limit that `--empty` adds: `(select * from a.b where false limit 0)`."""


def has_limits(code: str) -> bool:
    """Return whether code has a limit of `--empty`: `(select * from a.b where false limit 0)`."""
    return _LIMITED.search(code) is not None


def filter_by_batch(code: Expanded, event_times: Mapping[str, str]) -> Expanded:
    """Replace each limit of `--empty` (see `has_limits`) with a filter on the interval.

    Args:
        event_times: Time column of each relation. Other relations are read completely.
    """
    columns = {_parts(relation): column for relation, column in event_times.items()}

    def replacement(found: re.Match[str]) -> str:
        relation = found["relation"].strip()
        bare = relation.split(" AS ")[0]
        parts, name = _parts(bare), _last_part(bare)
        column = next((c for one, c in columns.items() if one[-len(parts) :] == parts), None)
        if column is None:
            return relation
        return _filtered_rows(bare, column) + _alias_if_needed(found, _LIMITED, name)

    return code.edited(
        Edit(found.start(), found.end(), replacement(found))
        for found in _LIMITED.finditer(code.text)
    )


def _filtered_rows(relation: str, column: str) -> str:
    start, end = placeholder("start_dt"), placeholder("end_dt")
    return f"(SELECT * FROM {relation} WHERE {column} >= {start} AND {column} <= {end})"


def _parts(relation: str) -> tuple[str, ...]:
    return tuple(part.strip('`"[] ').lower() for part in relation.split("."))


def _last_part(relation: str) -> str:
    return relation.rpartition(".")[2].strip('`"[]')


def _rename_tables(
    text: str, tokens: list[Token], at: list[int], table: Callable[[str], str]
) -> list[Edit]:
    # A name that qualifies columns becomes an alias.
    called = {tokens[i].text.lower() for i in at if _token_text(tokens, i + 1) == "."}
    edits = []
    for i in at:
        token = tokens[i]
        if _token_text(tokens, i + 1) != ".":
            alias = (
                _alias_unless_present(text[token.end :], token.text)
                if token.text.lower() in called
                else ""
            )
            edits.append(Edit(token.start, token.end, table(token.text) + alias))
    return edits


_NEXT = re.compile(r"""(?:\s|--[^\n]*\n)*([\w`"]+)""")


def _alias_unless_present(behind: str, name: str) -> str:
    following = _NEXT.match(behind)
    has_alias = following is not None and following[1].lower() not in CLAUSES
    return "" if has_alias else f" AS {name}"


def _token_text(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].text if index < len(tokens) else ""
