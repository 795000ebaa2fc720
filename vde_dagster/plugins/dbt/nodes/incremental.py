"""Incremental models: their kinds, and one query that unites both branches of `is_incremental()`.

dbt computes the first branch (false) if the table does not exist yet, otherwise the second. If the
second branch only adds conditions to the first, the united query is the second branch, where these
conditions are true while the table is empty. Otherwise the united query returns the rows of the
first branch while the table is empty, and the rows of the second branch later.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from vde_dagster.api.errors import ProjectError, SourceLocation
from vde_dagster.api.kinds import Kind
from vde_dagster.api.sql import Edit, Expanded, Token, in_spark, read_expression
from vde_dagster.api.values import parse_instant, quote
from vde_dagster.plugins.dbt.manifest import Node
from vde_dagster.plugins.dbt.nodes.options import partitions
from vde_dagster.plugins.dbt.relations import CLAUSES

_COMPUTED_WHOLE = "incremental models with only one known branch, computed whole"
_MERGED = "incremental models with only one known branch, whose whole query is merged"
_FIRST_BRANCH = "microbatch models with is_incremental(), whose first branch is computed"
READ_WHOLE = "microbatch models without an input that has an event_time, read whole for each batch"
APPENDED = "incremental models without a key, which append"
_UNLIMITED_BATCH = 1_000_000
"""`batch_size` of models that find new rows by reading their own table, not by an interval."""
BATCH_CRONS = {"hour": "0 * * * *", "day": "0 0 * * *", "month": "0 0 1 * *", "year": "0 0 1 1 *"}
"""Crons that tick once a batch, by batch_size."""
_POLICIES = {
    "ignore": ("ignore", "ignore"),
    "fail": ("error", "error"),
    "append_new_columns": ("ignore", "allow"),
    "sync_all_columns": ("allow", "allow"),
}
"""(on_destructive_change, on_additive_change) by dbt's on_schema_change."""
_DEFAULT_STRATEGIES = {
    **dict.fromkeys(("duckdb", "postgres", "clickhouse"), "delete+insert"),
    **dict.fromkeys(("snowflake", "bigquery", "databricks", "sqlserver", "fabric"), "merge"),
    **dict.fromkeys(("spark", "trino", "redshift"), "append"),
    "athena": "insert_overwrite",
}
"""Strategy of a model that configures none, by adapter; sources are in docs/dbt.md."""
_KEY_STRATEGIES = ("merge", "delete+insert")
_SAME_STRATEGY = {"delete_insert": "delete+insert", "legacy": "delete+insert"}
"""Other names of strategies in ClickHouse's adapter."""
_OTHER_MERGES = frozenset(
    {"merge_update_condition", "merge_insert_condition", "merge_update_set_expressions"}
    | {"merge_on_using_columns", "merge_clauses", "matched_condition", "not_matched_condition"}
    | {"not_matched_by_source_action", "not_matched_by_source_condition", "skip_matched_step"}
    | {"skip_not_matched_step", "update_condition", "insert_condition", "delete_condition"}
    | {"delete_not_matched_by_source", "merge_update_columns_rules"}
    | {"merge_update_columns_default_rule"}
)
"""Configuration of adapters that affects the rows of a merge, and is not supported."""


@dataclass(frozen=True, slots=True)
class Filling:
    """The kind of a node, with the options for its query and its intervals.

    Args:
        both: Whether the model's query contains both branches of `is_incremental()`.
        batch: Unit of time of a microbatch; empty for other models.
        start: First instant with data (UTC), if it is configured.
        unread: Descriptions of ignored configuration.
    """

    kind: Kind
    both: bool = False
    batch: str = ""
    start: datetime | None = None
    unread: tuple[str, ...] = ()


def incremental_filling(
    node: Node, later: str | None, adapter: str, dialect: str, location: SourceLocation
) -> Filling:
    """Convert the configuration of an incremental model.

    Args:
        later: The model's compiled code where `is_incremental()` is true, if known.

    Raises:
        ValueError: The configuration is wrong.
        ProjectError: `later` is unknown, and the node's own code reads the model's table: dbt
            compiled it with `is_incremental()` being true.
    """
    config = node.config
    if node.relation_name and node.relation_name in (node.compiled_code or "") and later is None:
        raise ProjectError(
            f"'{node.name}' was compiled for an existing table, so its query reads that table",
            hint="run `dbt compile --full-refresh`",
            location=location,
        )
    both = later is not None and later != node.compiled_code
    half = later is None and "is_incremental()" in node.raw_code
    strategy, partitioned = find_strategy(node, adapter), partitions(node, dialect)
    kept = _in_place_properties(config)
    if strategy == "microbatch":
        made = _microbatch(node, adapter, dialect, kept)
        return replace(made, unread=(*made.unread, *([_FIRST_BRANCH] if both else [])))
    if both:
        kept["batch_size"] = _UNLIMITED_BATCH
    if config.get("unique_key") and strategy in _KEY_STRATEGIES:
        kind, unknown = _key_kind(node, strategy, adapter, dialect, kept)
        return Filling(kind, both, unread=(*([_MERGED] if half else []), *unknown))
    if half:
        return Filling(Kind.named("FULL"), unread=(_COMPUTED_WHOLE,))
    if strategy == "insert_overwrite":
        if config.get("partitions"):
            raise ValueError(
                "the option partitions is not supported, as it also replaces partitions without "
                "new rows"
            )
        if partitioned:
            return Filling(Kind.named("INCREMENTAL_BY_PARTITION", **kept), both)
        if not both:
            return Filling(Kind.named("FULL"))
        kept["insert_overwrite"] = True
    if strategy in (*_KEY_STRATEGIES, "append", "insert_overwrite"):
        return Filling(Kind.named("INCREMENTAL_UNMANAGED", **kept), both)
    return Filling(
        Kind.named("FULL"), unread=(f"incremental models of strategy {strategy}, computed whole",)
    )


def find_strategy(node: Node, adapter: str) -> str:
    """Return a model's incremental strategy: its own, or the adapter's default."""
    config = node.config
    given = str(config.get("incremental_strategy") or "default")
    strategy = _DEFAULT_STRATEGIES.get(adapter, "merge") if given == "default" else given
    if adapter == "clickhouse" and config.get("inserts_only"):
        return "append"
    if adapter == "athena" and strategy == "insert_overwrite" and not config.get("partitioned_by"):
        return "append"
    return _SAME_STRATEGY.get(strategy, strategy)


def _key_kind(
    node: Node, strategy: str, adapter: str, dialect: str, kept: Mapping[str, Any]
) -> tuple[Kind, tuple[str, ...]]:
    config, values = node.config, dict(kept)
    if strategy == "merge":
        for name in sorted(_OTHER_MERGES & config.keys()):
            if config[name]:
                raise ValueError(
                    f"{name}, which changes the rows that a merge writes, is not supported"
                )
        values["when_matched"] = _read_when_matched(config)
    only, unknown = _merge_filter(node, strategy, dialect)
    if adapter == "databricks" and strategy == "delete+insert":
        # Its REPLACE ON compares by <=>, and its predicates filter the new rows, too.
        values["nulls_match"] = True
        if only:
            raise ValueError(
                "incremental_predicates of delete+insert, which filter new rows, are not supported"
            )
    key = read_key(list_texts(config.get("unique_key")), dialect)
    given = {"unique_key": key, "merge_filter": only, "strategy": strategy}
    return Kind.named("INCREMENTAL_BY_UNIQUE_KEY", **given, **values), unknown


def _in_place_properties(config: Mapping[str, Any]) -> dict[str, Any]:
    change = str(config.get("on_schema_change") or "ignore")
    if change not in _POLICIES:
        raise ValueError(f"on_schema_change must be one of {', '.join(_POLICIES)}, not '{change}'")
    never = config.get("full_refresh") is False
    if not never and change == "ignore":
        return {}
    destructive, additive = _POLICIES[change]
    policies = {"on_destructive_change": destructive, "on_additive_change": additive}
    return {**policies, **({"forward_only": True, "disable_restatement": True} if never else {})}


def _microbatch(node: Node, adapter: str, dialect: str, kept: Mapping[str, Any]) -> Filling:
    # A batch replaces the rows of its interval, or is merged by key.
    config = node.config
    column, unit = str(config.get("event_time") or ""), str(config.get("batch_size") or "day")
    if not column:
        raise ValueError("a microbatch model needs an event_time")
    if unit not in BATCH_CRONS:
        raise ValueError(f"batch_size must be one of {', '.join(BATCH_CRONS)}, not '{unit}'")
    lookback = config.get("lookback")
    values = {**kept, "lookback": 1 if lookback is None else int(lookback), "batch_size": 1}
    unknown: tuple[str, ...] = ()
    merged = adapter == "postgres" or (adapter == "athena" and config.get("table_type") != "hive")
    if merged and config.get("unique_key"):
        kind, unknown = _key_kind(node, "merge", adapter, dialect, values)
    else:
        at_once = 1 if config.get("concurrent_batches") is False else None
        values |= {"time_column": (column, None), "batch_concurrency": at_once}
        kind = Kind.named("INCREMENTAL_BY_TIME_RANGE", **values)
    begin = config.get("begin")
    start = parse_instant(str(begin)) if begin else None
    return Filling(kind, batch=unit, start=start, unread=unknown)


def _read_when_matched(
    config: Mapping[str, Any],
) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Convert `merge_update_columns` or `merge_exclude_columns` to `when_matched`."""
    names = list_texts(config.get("merge_update_columns"))
    kept = list_texts(config.get("merge_exclude_columns"))
    if names and kept:
        raise ValueError("merge_update_columns and merge_exclude_columns cannot be combined")
    if names:
        return (("", tuple((name, f"source.{quote_key_column(name)}") for name in names)),)
    if kept:
        as_they_are = ((name, f"target.{quote_key_column(name)}") for name in kept)
        return (("", (("*", "*"), *as_they_are)),)
    return ()


_DBT_SIDE = re.compile(r"\bDBT_(?:INTERNAL_(SOURCE|DEST)|(?:INTERNAL|INCREMENTAL)_TARGET)\b", re.I)
"""Names that predicates use for the new rows and for the table's rows."""


def _merge_filter(node: Node, strategy: str, dialect: str) -> tuple[str, tuple[str, ...]]:
    """Convert `incremental_predicates` to a condition over `source` and `target`.

    Returns:
        The condition, and descriptions of ignored predicates.
    """
    # With delete+insert, the predicates limit the deleted rows, so a column without a prefix
    # belongs to the target.
    config = node.config
    given = list_texts(config.get("incremental_predicates") or config.get("predicates"))
    if not given:
        return "", ()
    try:
        text = in_spark(" AND ".join(f"({one})" for one in given), dialect)
        text = _DBT_SIDE.sub(
            lambda found: "source" if (found[1] or "").upper() == "SOURCE" else "target", text
        )
        found = read_expression(text)
    except ValueError:
        return "", ("incremental_predicates that are not expressions",)
    if strategy == "delete+insert":
        alone = {parts[0].lower() for parts, _ in found.mentions if len(parts) == 1}
        text = found.renamed({name: f"target.{quote_key_column(name)}" for name in alone})
        found = read_expression(text)
    if any(len(parts) != 2 or parts[0] not in ("source", "target") for parts, _ in found.mentions):
        return "", ("incremental_predicates without DBT_INTERNAL_SOURCE and DBT_INTERNAL_DEST",)
    return text, ()


def list_texts(value: Any) -> list[str]:
    """Return a list of texts; a single text becomes a list."""
    if not value:
        return []
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def quote_key_column(column: str) -> str:
    """Quote a column's name for a key or condition, unless it is a plain word."""
    return column if re.fullmatch(r"[^\W\d]\w*", column) else quote(column)


def read_key(parts: list[str], dialect: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Divide a key into columns and expressions.

    Raises:
        ValueError: A part is neither a column nor an expression.
    """
    columns, expressions = [], []
    for part in parts:
        tokens = Token.split(part)
        if len(tokens) == 1 and tokens[0].kind in ("word", "quoted", "string"):
            columns.append(tokens[0].text.strip('`"'))
        else:
            text = in_spark(part, dialect)
            if not read_expression(text).columns:
                raise ValueError(f"'{part}' contains no column")
            expressions.append(text)
    return tuple(columns), tuple(expressions)


# -- both branches in one query ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddedCondition:
    start: int
    end: int
    text: str


def added_conditions(first: str, later: str, dialect: str) -> list[AddedCondition] | None:
    """Return the conditions that the second branch has in addition to the first.

    None if the branches differ in anything else, except layout and comments.

    Raises:
        ProjectError: A bracket, string or comment is not closed.
    """
    had, has = (Token.split(text, dialect) for text in (first, later))
    found = []
    insertions = _find_insertions([t.text for t in had], [t.text for t in has])
    if insertions is None:
        return None
    for start, end in insertions:
        one = _read_condition(has, later, start, end)
        if one is None:
            return None
        found.append(one)
    return found


def _find_insertions(had: list[str], has: list[str]) -> list[tuple[int, int]] | None:
    """Return the ranges of `has` that were inserted, or None if `has` has other changes."""
    if had == has:
        return []
    before = 0
    while before < min(len(had), len(has)) and had[before] == has[before]:
        before += 1
    behind = 0
    while (
        behind < min(len(had), len(has)) - before
        and had[len(had) - 1 - behind] == has[len(has) - 1 - behind]
    ):
        behind += 1
    old, new = had[before : len(had) - behind], has[before : len(has) - behind]
    if not old:
        return [(before, before + len(new))]
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    if any(tag not in ("equal", "insert") for tag, *_ in codes):
        return None
    return [(before + j, before + k) for tag, _, _, j, k in codes if tag == "insert"]


def _read_condition(
    tokens: Sequence[Token], text: str, start: int, end: int
) -> AddedCondition | None:
    # `b AND` before `a` is `AND b` behind what comes before it, too.
    while start > 0 and tokens[start - 1].text == tokens[end - 1].text:
        if tokens[start].is_word("WHERE", "AND"):
            break
        start, end = start - 1, end - 1
    first, depth = tokens[start], 0
    for token in tokens[start + 1 : end]:
        depth += (token.text in "([{") - (token.text in ")]}")
        if depth < 0 or (depth == 0 and token.text.lower() in CLAUSES):
            return None
        if depth == 0 and token.is_word("OR") and not first.is_word("WHERE"):
            return None
    if depth or end - start < 2 or not first.is_word("WHERE", "AND"):
        return None
    begin, behind = tokens[start + 1].start, tokens[end - 1].end
    return AddedCondition(begin, behind, text[begin:behind])


def ignore_while_empty(
    later: Expanded, conditions: Sequence[AddedCondition], this: str
) -> Expanded:
    """Make the incremental query ignore the conditions while the table `this` is empty."""
    none_yet = f"NOT EXISTS (SELECT 1 FROM {this})"
    return later.edited(
        Edit(one.start, one.end, f"({one.text}\n OR {none_yet})") for one in conditions
    )


def unite_branches(first: str, later: str, this: str) -> str:
    """Unite two branches in one query: the first while table `this` is empty, then the second."""
    rows = f"EXISTS (SELECT 1 FROM {this})"
    return (
        f"SELECT * FROM ({first}) AS dbt_first WHERE NOT {rows} "
        f"UNION ALL SELECT * FROM ({later}) AS dbt_later WHERE {rows}"
    )
