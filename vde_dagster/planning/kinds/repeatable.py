"""Repeatable models: models that return the same rows from the same tables at any time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.reasons import Reason, ReasonCode
from vde_dagster.planning.snapshots.snapshot import Snapshot, column_types
from vde_dagster.planning.tables.pinned_reads import Input
from vde_dagster.project.macros.variables import TIME_VARIABLES
from vde_dagster.semantics.spark_functions import (
    SESSION,
    SESSION_WITHOUT_ARGUMENTS,
    WITHOUT_PARENTHESES,
)
from vde_dagster.sql.grammar.strings import read_string
from vde_dagster.sql.scanner import Token

if TYPE_CHECKING:
    from sqlglot import exp

_SPECIAL_INSTANT = re.compile(
    r"\s*(now|today|tomorrow|yesterday)(\s+\S+)?\s*", re.IGNORECASE | re.ASCII
)
"""Texts, optionally with a time zone, that Spark casts to the current date or time."""
DATES_OF_TEXTS = "dates of texts"
"""Result of `reads_clock` if a query may build a text such as `now` and cast it to a time."""
_PRESENT = ("now", "today", "tomorrow", "yesterday")
_TO_INSTANTS = frozenset(
    (
        *("cast", "try_cast", "date", "timestamp", "to_date", "try_to_date", "to_timestamp"),
        *("try_to_timestamp", "to_timestamp_ltz", "to_timestamp_ntz"),
    )
)


def may_be_skipped(snapshot: Snapshot) -> bool:
    """Return whether a run may skip a model while its inputs have no new data."""
    # A run may skip tables that are written as a whole, and models that read a parent by commits.
    meaning = meaning_of(snapshot.model.kind)
    return meaning.replaces_all or Input.BY_COMMITS in meaning.inputs(snapshot.model).values()


def explain_never_skipped(
    snapshot: Snapshot, snapshots: Mapping[ModelName, Snapshot]
) -> Reason | None:
    """Return why every run computes a model, or None if unchanged inputs let a run skip it."""
    model = snapshot.model
    if model.skip_unchanged is False:
        return Reason(ReasonCode.NEVER_SKIPPED)
    if model.skip_unchanged:
        return None
    return explain_not_repeatable(snapshot, snapshots)


def explain_not_repeatable(
    snapshot: Snapshot, snapshots: Mapping[ModelName, Snapshot], seen: set[ModelName] | None = None
) -> Reason | None:
    """Return why a query may give different rows for the same tables (such as `now()`), or None."""
    seen = set() if seen is None else seen
    model = snapshot.model
    if model.pre_statements or model.post_statements:
        return Reason(ReasonCode.OWN_STATEMENTS)
    if model.python is not None:
        return Reason(ReasonCode.PYTHON)
    if snapshot.version.opaque is not None:
        return Reason(ReasonCode.NOT_UNDERSTOOD, detail=snapshot.version.opaque)
    if model.query is not None:
        clock = reads_clock(model.query)
        if clock in _present_texts(model.query) and _compares_only_texts(snapshot, snapshots):
            clock = reads_clock(model.query, ignores_texts=True)
        if clock is not None:
            made = clock == DATES_OF_TEXTS
            code = ReasonCode.DATES_OF_TEXTS if made else ReasonCode.READS_CLOCK
            return Reason(code, detail="" if made else clock)
    for name in snapshot.parents:
        parent = snapshots.get(name)
        if parent is None or parent.has_table or parent.model.kind.is_external or name in seen:
            continue
        seen.add(name)
        why = explain_not_repeatable(parent, snapshots, seen)
        if why is not None:
            return replace(why, names=(str(name), *why.names))
    return None


@lru_cache(maxsize=4096)
def reads_clock(query: str, *, ignores_texts: bool = False) -> str | None:
    """Find the first name or text in a query that depends on the time or the user, such as `now()`.

    Args:
        ignores_texts: Whether literals such as `'now'` are certainly not cast to dates.

    >>> reads_clock("SELECT a, now() AS at FROM t"), reads_clock("SELECT now FROM t")
    ('now()', None)
    >>> reads_clock("SELECT @end_ds AS day"), reads_clock("SELECT DATE 'today'")
    ('@end_ds', "'today'")
    """
    # A name that may be either counts, for example a column with the name of a function (`user`).
    tokens = Token.split(query)
    for index in range(len(tokens)):
        found = _clock_at(tokens, index)
        if found is not None:
            return found
    texts = () if ignores_texts else _present_texts(query)
    if texts:
        return texts[0]
    composed = _may_make_instants(tokens) and _makes_instants(query)
    return DATES_OF_TEXTS if composed else None


@lru_cache(maxsize=4096)
def _present_texts(query: str) -> tuple[str, ...]:
    """Return the literals of a query that Spark could cast to the current date or time."""
    tokens = Token.split(query)
    literals = (
        _literal_at(tokens, index)
        for index, token in enumerate(tokens)
        if token.kind == "string" and (index == 0 or tokens[index - 1].kind != "string")
    )
    return tuple(one for one in literals if _is_present(read_string(one) or ""))


def _is_present(text: str) -> bool:
    return _SPECIAL_INSTANT.fullmatch(text) is not None


def _compares_only_texts(snapshot: Snapshot, snapshots: Mapping[ModelName, Snapshot]) -> bool:
    """Return whether a query uses literals such as `'now'` only as texts and not as dates."""
    from vde_dagster.semantics.text_uses import are_only_texts

    query = snapshot.model.query
    assert query is not None
    parents = {name: snapshots[name] for name in snapshot.parents if name in snapshots}
    stored = {column.name.lower(): column.type or "" for column in snapshot.columns}
    count = len(_present_texts(query))
    return are_only_texts(query, column_types(parents), stored, _is_present, count)


def _may_make_instants(tokens: list[Token]) -> bool:
    """Return whether a query may convert texts to dates or timestamps."""
    # A query may do so if it casts to dates, or has a literal with letters of a word like `now`.
    for token in tokens:
        if token.text == "::" or token.text.lower() in _TO_INSTANTS:
            return True
        if token.kind == "string":
            text = (read_string(token.text) or "").strip().lower()
            if text and any(text in word for word in _PRESENT):
                return True
    return False


def _literal_at(tokens: list[Token], index: int) -> str:
    """Return a literal's text as written, joined with the adjacent literals."""
    written = tokens[index].text
    for before, token in pairwise(tokens[index:]):
        if token.kind != "string":
            break
        written += f"{'' if token.start == before.end else ' '}{token.text}"
    return written


def _makes_instants(query: str) -> bool:
    """Return whether a query may build a word such as `now` and cast it to a time.

    >>> _makes_instants("SELECT CAST('to' || 'day' AS DATE)")
    True
    >>> _makes_instants("SELECT CAST(month || '-01' AS DATE), DATE '2024-01-01' FROM t")
    False
    """
    if not _COMPOSED.search(query):
        return False
    from sqlglot import exp

    from vde_dagster.sql.reading import call_name, read_query

    tree = read_query(query).tree
    for node in tree.walk():
        if _is_composed(node) and _becomes_instant(node, tree):
            return True
        if isinstance(node, (exp.Cast, exp.TryCast)):
            if node.to.sql("spark").lower().partition("_")[0] not in ("date", "timestamp"):
                continue
            made = node.this
        elif call_name(node) in _TO_INSTANTS and node.expressions:
            made = node.expressions[0]
        else:
            continue
        made = made.unnest()
        if isinstance(made, (exp.Literal, exp.Column)):
            continue
        texts = _texts(made)
        if made.find(exp.Column) is None:
            if texts or made.find(exp.Anonymous) is not None:
                return True
        elif any(_is_part(text) for text in texts):
            return True
    return False


_MAKES_TEXT = frozenset(
    {"concat", "concat_ws", "format_string", "printf", "replace", "regexp_replace", "translate"}
    | {"reverse", "lower", "upper", "lcase", "ucase", "initcap", "trim", "btrim", "ltrim", "rtrim"}
    | {"substring", "substr", "left", "right", "lpad", "rpad", "repeat", "overlay", "elt"}
    | {"array_join", "split_part", "string", "nvl", "coalesce"}
)
_COMPOSED = re.compile(
    rf"::|\|\||\b(?:{'|'.join(sorted(_MAKES_TEXT | _TO_INSTANTS))})\b", re.IGNORECASE
)
"""Operators and functions that may build a text or cast a text to a date or time."""


def _is_composed(node: exp.Expr) -> bool:
    """Return whether an expression joins constant texts that may form a word such as `now`."""
    from sqlglot import exp

    from vde_dagster.sql.reading import call_name

    made = isinstance(node, exp.DPipe) or call_name(node) in _MAKES_TEXT
    if not made or node.find(exp.Column) is not None:
        return False
    texts = _texts(node)
    return any(map(_is_part, texts)) or _is_present("".join(texts))


def _becomes_instant(node: exp.Expr, tree: exp.Expr) -> bool:
    # Spark may do so unless the text is simply selected.
    from sqlglot import exp

    from vde_dagster.sql.reading import call_name

    around = node.parent
    while around is not None and (
        isinstance(around, exp.Paren | exp.DPipe) or call_name(around) in _MAKES_TEXT
    ):
        around = around.parent
    if isinstance(around, exp.Cast):
        return False  # Looked at as a cast.
    if isinstance(around, exp.Alias):
        around = around.parent
    return around is not tree


def _texts(node: exp.Expr) -> list[str]:
    from sqlglot import exp

    return [read_string(text.this) or "" for text in node.find_all(exp.Literal) if text.is_string]


def _is_part(text: str) -> bool:
    word = text.strip().lower()
    return len(word) > 1 and any(word in present for present in _PRESENT)


def _clock_at(tokens: list[Token], index: int) -> str | None:
    word = tokens[index].text.lower().strip("`")
    if tokens[index].kind not in ("word", "quoted"):
        return None
    if word in TIME_VARIABLES and index and tokens[index - 1].text in ("@", "{"):
        return f"@{word}"
    called = index + 1 < len(tokens) and tokens[index + 1].text == "("
    if called:
        empty = index + 2 < len(tokens) and tokens[index + 2].text == ")"
        session = word in SESSION or (word in SESSION_WITHOUT_ARGUMENTS and empty)
        return f"{word}()" if session else None
    column = tokens[index].kind == "quoted" or (index and tokens[index - 1].text == ".")
    return word if word in WITHOUT_PARENTHESES and not column else None
