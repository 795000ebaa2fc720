"""Mistakes in a model's query, and places in the header and body of its file."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName
from vde_dagster.errors import Fix, Hint, ProjectError, Replacement, SourceLocation
from vde_dagster.planning.snapshots.snapshot import OutputColumn, Snapshot
from vde_dagster.planning.tables.pinned_reads import Input
from vde_dagster.project.kinds import KINDS, Kind
from vde_dagster.project.model import Audit, Model
from vde_dagster.semantics.errors import Finding, mistake_offset
from vde_dagster.sql.scanner import SourceText, Token, scan


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """A model with the results of analyzing its query, as input of the checks.

    Args:
        columns: The output columns, with the columns that the kind adds; None if some are unknown.
        functions: Functions that Spark sessions have in addition to the built-in ones.
        audited: Snapshots of models that only its audits read; empty if not available.
        inputs: How a fill of the model reads each parent.
        changed_by: Key columns, if a fill replaces only the rows of changed keys.
        clock: First name in the query that reads the time or the user, such as `current_date`. Set
            only for a model that refreshes from changes.
        unknown_star: Why the columns of the query's star are not known, or None.
    """

    model: Model
    columns: tuple[OutputColumn, ...] | None
    findings: tuple[Finding, ...] = ()
    functions: Collection[str] = ()
    audited: Mapping[ModelName, Snapshot] = field(default_factory=dict)
    inputs: Mapping[ModelName, Input] = field(default_factory=dict)
    changed_by: Sequence[str] = ()
    clock: str | None = None
    unknown_star: str | None = None


_COMPARES = frozenset({"=", "<", ">", "!", "LIKE", "BETWEEN"})
"""Tokens that compare the string literal next to them. In `<=`, each character is a token."""
_SETTING = "spark.sql.ansi.doubleQuotedIdentifiers"
_AS_NAMES = re.compile(re.escape(_SETTING) + r"`?\s*=\s*true", re.IGNORECASE)
NAMES = ("unnamed", "repeated")
"""Rules about the names of output columns."""


def query_problems(known: CheckedModel, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Return the mistakes that the analysis found in a model's query."""
    model = known.model
    for one in known.findings:
        if one.rule in NAMES and not model.kind.is_shown:
            continue  # Its readers may well do without the column.
        certain = one.certain and not (one.rule == "unnamed" and not model.kind.owns_table)
        location = model.place(mistake_offset(model.query or "", one))
        message = f"{model.name}: {one.message}"
        yield Problem(message, one.hint, location, certain, untyped=one.untyped)


def check_double_quotes(
    known: CheckedModel, parents: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    """Report text literals in double quotes where a column name may be meant."""
    # Most engines read them as names. If a Spark setting makes double quotes quote names, every
    # literal in double quotes is refused, because the analysis reads it as a string.
    model = known.model
    if model.query is None or '"' not in model.query:
        return
    tokens = Token.split(model.query)
    settings = [f"{key} = {value}" for key, value in model.session]
    names = any(_AS_NAMES.search(text) for text in (*settings, *model.pre_statements))
    listed = False  # Whether it is a list of what a column is IN.
    for at, token in enumerate(tokens):
        before, after = (tokens[n].text if 0 <= n < len(tokens) else "" for n in (at - 1, at + 1))
        if before == "(":
            listed = at > 1 and tokens[at - 2].text.upper() == "IN"
        elif before == ")":
            listed = False
        compared = before.upper() in _COMPARES or after.upper() in _COMPARES or listed
        if token.text[0] == '"' and (compared or names):
            text = token.text[1:-1]
            what = f"{token.text} is a text in Spark, not a column as in most engines"
            if names:
                what = f"{_SETTING} makes {token.text} a name, which is not supported"
            yield Problem(
                f"{model.name}: {what}",
                Hint(
                    f"write '{text}' for the text, `{text}` for the column",
                    Fix.writing(token.text, f"'{text}'"),
                    Fix.writing(token.text, f"`{text}`"),
                ),
                model.place(token.start),
                certain=names,
            )


def audit_place(model: Model, audit: Audit | None) -> SourceLocation:
    if audit is None:
        return model.location
    if model.location.path.suffix not in (".yaml", ".yml"):
        return place_in_header(model, audit.name)
    first = model.location.line or 1
    called = re.compile(rf"\b{re.escape(audit.name)}\b")
    lines = enumerate(model.source.splitlines()[first - 1 :], first)
    line = next((number for number, text in lines if called.search(text)), first)
    return SourceLocation(model.location.path, line)


def place_in_header(model: Model, *words: str) -> SourceLocation:
    """Return the file and line of words in a model's header, such as `kind` and `time_column`.

    Each word is searched after the previous one; the result is the place of the last word found.
    """
    if model.python is not None:
        return model.location
    header = _header(model.source, model.location.line or 1)
    found: Token | None = None
    start = 0
    for word in words:
        for i in range(start, len(header)):
            if header[i].text.strip("`'\"").casefold() == word.strip("`").casefold():
                found, start = header[i], i + 1
                break
    return model.location if found is None else _source(model).location(found.start)


def hint_to_remove_property(model: Model, name: str, text: str) -> Hint:
    """Return the hint `text`, with a fix that deletes a property from a SQL model's header."""
    header = _header(model.source, model.location.line or 1) if model.python is None else []
    depth = 0
    for at, (before, token) in enumerate(pairwise(header), start=1):
        depth += {"(": 1, ")": -1}.get(before.text, 0)
        if before.text not in ("(", ",") or token.text.casefold() != name or depth not in (1, 2):
            continue
        end, inner = at, 0
        while end < len(header) and inner >= 0 and (inner or header[end].text != ","):
            inner += {"(": 1, ")": -1}.get(header[end].text, 0)
            end += inner >= 0
        if end < len(header) and header[end].text == ",":
            start, stop = token.start, header[end + 1].start
        elif before.text == ",":
            start, stop = before.start, header[end - 1].end
        else:
            break
        place = _source(model).location(start)
        edit = Replacement(model.source[start:stop], "", place)
        return Hint(text, Fix(f"Remove {name}", (edit,)))
    return Hint(text)


def statements_after_header(model: Model, word: str) -> Iterator[tuple[Token, SourceLocation]]:
    """Yield the second token, and the place, of each statement that starts with `word`."""
    if model.location.path.suffix != ".sql" or word.lower() not in model.source.lower():
        return
    body = _body(model)
    for index, (first, following) in enumerate(pairwise(body)):
        if first.is_word(word) and (index == 0 or body[index - 1].text == ";"):
            yield following, _source(model).location(first.start)


def find_compared_texts(model: Model, variable: str) -> Iterator[tuple[str, SourceLocation]]:
    """Yield the texts that a SQL model compares with a variable, such as `'x'` in `@var = 'x'`."""
    if model.location.path.suffix != ".sql" or variable not in model.source.lower():
        return
    body = _body(model)
    for index, word in enumerate(body):
        if word.text.strip("@").lower() != variable:
            continue
        sign, *rest = [*body[index + 1 : index + 4], word]
        behind = next(one for one in rest if one.text != "=")
        if sign.text in ("=", "==") and behind.kind == "string":
            yield behind.text.strip("'\"").lower(), _source(model).location(behind.start)


def properties_in_header(model: Model) -> Mapping[str, frozenset[str]]:
    """Map each property in a model's header, in lower case, to the names in its brackets."""
    if _is_python(model):
        given = _in_decorators(model.source, model.location.line or 1)
        return {
            name: frozenset(filter(None, map(_text, value.keys)))
            if isinstance(value, ast.Dict)
            else frozenset()
            for name, value in given.items()
        }
    found: dict[str, frozenset[str]] = {}
    name = ""
    for depth, word in _names_in_header(model):
        if depth == 1:
            name = word
            found[name] = frozenset()
        elif name:
            found[name] |= {word}
    return found


def kind_in_header(model: Model) -> type[Kind] | None:
    """Return the kind named in a model's file, or None if a decorator computes it."""
    # A kind can expand one file into several models. These models have other kinds than the file.
    if _is_python(model):
        value = _in_decorators(model.source, model.location.line or 1).get("kind")
        if value is None:
            return type(model.kind)
        if isinstance(value, ast.Dict):
            named = zip(value.keys, value.values, strict=True)
            value = next((v for k, v in named if k is not None and _text(k) == "name"), None)
        return KINDS.named((_text(value) or "").upper())
    sql = model.location.path.suffix == ".sql"
    header = _header(model.source, model.location.line or 1) if sql else []
    words = (name.text for word, name in pairwise(header) if word.is_word("KIND"))
    return KINDS.named(next(words, "").upper()) or type(model.kind)


def _is_python(model: Model) -> bool:
    return model.python is not None or model.location.path.suffix == ".py"


def _text(node: ast.expr | None) -> str | None:
    """Return the text of a literal, or the last name of an attribute (`ModelKindName.FULL`)."""
    if isinstance(node, ast.Attribute):
        return node.attr
    found = node.value if isinstance(node, ast.Constant) else None
    return found if isinstance(found, str) else None


def repeated_properties(model: Model) -> list[str]:
    """Return the properties that a SQL model's header repeats, in lower case."""
    own = [word for depth, word in _names_in_header(model) if depth == 1]
    return [name for name, count in Counter(own).items() if count > 1]


def _names_in_header(model: Model) -> tuple[tuple[int, str], ...]:
    sql = model.location.path.suffix == ".sql"
    return _names(model.source, model.location.line or 1) if sql else ()


@lru_cache(maxsize=64)
def _names(text: str, line: int) -> tuple[tuple[int, str], ...]:
    header, depth = _header(text, line), 0
    found: list[tuple[int, str]] = []
    behind = [token.text for token in header[2:]] + [""]
    for (before, token), following in zip(pairwise(header), behind, strict=False):
        # MERGE clauses have commas of their own: `…, target.b = source.b`.
        is_assigned = following in (".", "=") or token.is_word("WHEN")
        names = before.text in ("(", ",") and token.text != ")"
        if names and not is_assigned and depth in (1, 2):
            found.append((depth, token.text.casefold()))
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
    return tuple(found)


def _in_decorators(text: str, line: int) -> Mapping[str, ast.expr]:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        first = min((one.lineno for one in node.decorator_list), default=node.lineno)
        for call in node.decorator_list:
            if isinstance(call, ast.Call) and first <= line <= node.lineno:
                return {one.arg: one.value for one in call.keywords if one.arg}
    return {}


def _source(model: Model) -> SourceText:
    return SourceText(model.location.path, model.source)


def _body(model: Model) -> list[Token]:
    """Return the tokens after a model's header, up to the next block of its file."""
    header = _header(model.source, model.location.line or 1)
    try:
        tokens = list(scan(_source(model), header[-1].end if header else 0))
    except ProjectError:
        return []
    body = [token for token in tokens if token.kind != "comment"][1:]
    for i, (end, word, bracket) in enumerate(zip(body, body[1:], body[2:], strict=False)):
        if end.text == ";" and word.is_word("MODEL", "AUDIT") and bracket.text == "(":
            return body[:i]
    return body


@lru_cache(maxsize=64)
def _header(text: str, line: int) -> list[Token]:
    start = sum(len(part) for part in text.splitlines(keepends=True)[: line - 1])
    found: list[Token] = []
    depth = 0
    try:
        for token in scan(SourceText(Path(), text), start):
            if token.kind == "comment":
                continue
            if token.kind == "punct" and token.text in "()":
                depth += 1 if token.text == "(" else -1
                if depth == 0:
                    return found
            found.append(token)
    except ProjectError:
        pass
    return []
