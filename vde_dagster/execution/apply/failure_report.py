"""The report of a failed apply by model, with lines of the models' files and stack traces.

What Spark gets is the author's words in one line, with subqueries in place of tables' names, values
in place of variables, and whatever macros made. So both texts are compared word by word.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

from sqlglot import exp
from sqlglot.errors import SqlglotError

from vde_dagster.base.failures import SHOWN_ROWS, FailedAudit, ModelFailure, QueryPlace
from vde_dagster.base.names import ModelName
from vde_dagster.errors import (
    AuditFailedError,
    ExecutionError,
    ProjectError,
    SourceLocation,
    StoreError,
    VdeError,
)
from vde_dagster.planning.engine_tasks import AuditResult
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.model import Audit, Model
from vde_dagster.project.reading.statements import Block, Statement, split_blocks
from vde_dagster.spark.session.failures import project_frame, whole_stack
from vde_dagster.sql.reading import read_query
from vde_dagster.sql.scanner import SourceText, scan
from vde_dagster.sql.statements import temporary_view
from vde_dagster.sql.trees import QUERY_WORDS

KEPT_LOGS = 50
"""Files with stacks that are kept; the oldest go."""


def failed_audit(audit: Audit, result: AuditResult) -> FailedAudit:
    """Describe a blocking audit that found rows."""
    return FailedAudit(audit.label, result.failed_rows, result.sample[:SHOWN_ROWS])


def plan_failure(
    plan: Plan,
    failed: Mapping[ModelName, Exception],
    skipped: Mapping[ModelName, ModelName],
    folder: Path,
) -> VdeError:
    """Return the error of a plan of which models failed.

    Args:
        failed: What each failed model raised.
        skipped: The models that were not begun, with the one that failed before them.
        folder: Where the file with the stacks is put.

    Returns:
        An error that says everything model by model; where Spark cannot be had, just that.
    """
    for error in failed.values():
        if isinstance(error, StoreError):
            return error
    failures = tuple(
        model_failure(
            plan, name, error, [later for later, first in skipped.items() if first == name]
        )
        for name, error in failed.items()
    )
    only_audits = all(isinstance(error, AuditFailedError) for error in failed.values())
    kind = AuditFailedError if only_audits else ExecutionError
    raised = kind(
        _message(plan, failures, skipped),
        hint="what was finished is kept: mend the cause and apply again",
    )
    raised.failures = failures
    raised.log = write_stacks(folder, plan.id, failed)
    raised.__cause__ = next(iter(failed.values()))
    return raised


def model_failure(
    plan: Plan, name: ModelName, error: Exception, skipped: Collection[ModelName] = ()
) -> ModelFailure:
    """Describe how one model of a plan failed, with the place in its files."""
    planned = next((model for model in plan.models if model.name == name), None)
    snapshot = plan.snapshots.get(planned.snapshot_id or "") if planned else None
    known = error if isinstance(error, VdeError) else None
    message = known.message if known else f"{type(error).__name__}: {error}"
    return ModelFailure(
        model=name,
        message=" ".join(message.split()),
        hint=known.hint if known else None,
        location=failure_location(error, plan, snapshot) if snapshot else None,
        audits=error.audits if isinstance(error, AuditFailedError) else (),
        skipped=tuple(skipped),
    )


def failure_location(
    error: BaseException, plan: Plan, snapshot: Snapshot, audit: Audit | None = None
) -> SourceLocation:
    """Return the place in a model's files that an error is about, as near as it is known.

    Args:
        error: What was raised for the model.
        plan: Knows the queries that are inlined in the model's.
        audit: The audit that failed, if it is one.
    """
    model = snapshot.model
    if audit is not None:
        return audit_place(model, audit)
    if isinstance(error, AuditFailedError) and error.audits:
        labels = {one.audit for one in error.audits}
        return audit_place(model, next((a for a in model.audits if a.label in labels), None))
    known = project_frame(error) or (error.location if isinstance(error, VdeError) else None)
    if known is not None and known != model.location:
        return known
    place = error.place if isinstance(error, ExecutionError) else None
    if place is not None:
        found = find_place(place, [model, *_inlined(plan, snapshot)])
        if found is not None:
            return found
    return query_start(model)


@contextmanager
def query_of(snapshot: Snapshot) -> Iterator[None]:
    """Let an error say which model's query was run meanwhile, and where its file has the mistake.

    Raises:
        ExecutionError: The same, with model and place.
    """
    try:
        yield
    except ExecutionError as error:
        if error.location is None:
            found = find_place(error.place, [snapshot.model]) if error.place else None
            error.location = found or query_start(snapshot.model)
            error.message = f"{snapshot.name}: {error.message}"
        raise


def write_stacks(folder: Path, plan_id: str, failed: Mapping[ModelName, Exception]) -> Path | None:
    """Write the whole stacks of what failed to a file, and forget the oldest such files.

    Returns:
        The file, or None where it cannot be written.
    """
    target = folder / f"{plan_id}.log"
    text = "\n".join(f"{name}\n\n{whole_stack(error)}" for name, error in failed.items())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8", errors="replace")
        files = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime)
        for old in files[:-KEPT_LOGS]:
            old.unlink(missing_ok=True)
    except OSError:
        return None
    return target


def _inlined(plan: Plan, snapshot: Snapshot) -> Iterator[Model]:
    """Yield the models whose queries stand in a model's, through others or not."""
    seen = {snapshot.name}
    left = list(snapshot.parents)
    while left:
        name = left.pop()
        entry = plan.entries.get(name)
        if name in seen or entry is None or entry.table_id is not None:
            continue
        seen.add(name)
        parent = plan.snapshots[entry.snapshot_id]
        if parent.model.query is not None:
            yield parent.model
            left.extend(parent.parents)


def _message(
    plan: Plan, failures: Collection[ModelFailure], skipped: Mapping[ModelName, ModelName]
) -> str:
    lines = [f"plan {plan.id} was not published: {_count(len(failures), 'model')} failed"]
    lines += [f"  {failure}" for failure in failures]
    if skipped:
        lines.append(f"  skipped for them: {', '.join(map(str, skipped))}")
    return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_WORD = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|@?\w+|\S""",
    re.DOTALL,
)
_NAME = 3
"""Words of a table's name: schema, dot, name."""


class Word(NamedTuple):
    """A word or sign of a query.

    Args:
        text: As two spellings of one name have it: in lower case, without quotes.
        start: Offset of its first character.
    """

    text: str
    start: int


def find_place(place: QueryPlace, models: Iterable[Model]) -> SourceLocation | None:
    """Find a place of a rendered query in a model's file.

    Args:
        models: The model whose query it is, then those whose queries are inlined in it.

    Returns:
        File, line and column; None where the offending words stand in none of the files.
    """
    offset = place.offset if place.offset is not None else _column_offset(place)
    words = query_words(place.query)
    first = next((i for i, w in enumerate(words) if offset is not None and w.start >= offset), None)
    if first is None or offset is None:
        return None
    end = offset + len(place.words)
    count = sum(word.start < end for word in words[first:]) or 1
    candidates = list(models)
    texts = [word.text for word in words]
    whole = [(first, count)]
    ends = [(first + count - length, length) for length in range(count - 1, _NAME - 1, -1)]
    begins = [(first, length) for length in range(count - 1, 0, -1)]
    # A part of the words proves little: it is looked for in the model's own file alone. A table's
    # name is one without its catalog there.
    for spans, among in ((whole, candidates), (ends, candidates[:1]), (begins, candidates[:1])):
        for model in among:
            begin, until = query_range(model)
            own = [word for word in query_words(model.source[:until]) if word.start >= begin]
            found = _counterpart(texts, spans, own)
            if found is not None:
                return SourceText(model.location.path, model.source).location(found.start)
    return None


def query_words(text: str) -> list[Word]:
    """Split a query into words, without its comments."""
    return [
        Word(match[0].strip("`").lower(), match.start())
        for match in _WORD.finditer(text)
        if not match[0].startswith(("--", "/*"))
    ]


def query_range(model: Model) -> tuple[int, int]:
    """Return the range of a model's query in its file's text, as far as known."""
    source = SourceText(model.location.path, model.source)
    try:
        blocks = split_blocks(source, "spark")
    except ProjectError:
        blocks = []
    for block in blocks:
        if source.location(block.header.start).line != model.location.line:
            continue
        queries = [one for one in block.statements if one.first.startswith(QUERY_WORDS)]
        statements = queries or list(block.statements)
        if statements:
            return _with_views(source, block, statements[0]), statements[0].end
    return _offset_of_line(model.source, model.location.line or 1), len(model.source)


def _with_views(source: SourceText, block: Block, query: Statement) -> int:
    """Return the start of a query, with the temporary views before it that are parts of it."""
    for one in block.statements:
        if one.start >= query.start:
            break
        text = SourceText(source.path, source.text[one.start : one.end])
        if temporary_view(text) is not None:
            return one.start
    return query.start


def query_start(model: Model) -> SourceLocation:
    """Return the first line of a model's query, or the model's own where it has none."""
    if model.query is None or not model.source:
        return model.location
    begin, _ = query_range(model)
    return SourceLocation(
        model.location.path, SourceText(model.location.path, model.source).location(begin).line
    )


def audit_place(model: Model, audit: Audit | None) -> SourceLocation:
    """Return the line in which a model's header calls an audit, or the model's own."""
    line = model.location.line or 1
    if audit is None:
        return model.location
    source = SourceText(model.location.path, model.source)
    try:
        for token in scan(source, _offset_of_line(model.source, line)):
            if token.is_word(audit.name.upper()):
                return SourceLocation(source.path, source.location(token.start).line)
    except ProjectError:  # It is no SQL file.
        pass
    return model.location


def _column_offset(place: QueryPlace) -> int | None:
    """Return the place at which a query names an output column."""
    wanted = (place.column or "").lower()
    try:
        tree = read_query(place.query).tree
    except SqlglotError:
        return None
    for projection in tree.selects if isinstance(tree, exp.Query) else ():
        if projection.alias_or_name.lower() == wanted:
            named = projection.args.get("alias") or projection.this
            start = named.meta.get("start") if isinstance(named, exp.Expression) else None
            return int(start) if start is not None else None
    return None


def _offset_of_line(text: str, line: int) -> int:
    return sum(map(len, text.splitlines(keepends=True)[: line - 1]))


def _counterpart(
    texts: Sequence[str], spans: Iterable[tuple[int, int]], own: Sequence[Word]
) -> Word | None:
    """Find words among a file's, by the first of some (begin, length) that stands there.

    Where it stands there several times, the words around it decide.
    """
    theirs = [word.text for word in own]
    for first, length in spans:
        wanted = texts[first : first + length]
        places = [i for i in range(len(theirs)) if theirs[i : i + length] == wanted]
        if len(places) > 1:
            aligned = _aligned(texts, first, theirs)
            places = [place for place in places if place == aligned]
        if places:
            return own[places[0]]
    return None


def _aligned(texts: Sequence[str], first: int, theirs: Sequence[str]) -> int | None:
    for begin, other, size in SequenceMatcher(None, texts, theirs).get_matching_blocks():
        if begin <= first < begin + size:
            return other + first - begin
    return None
