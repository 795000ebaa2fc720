"""Where a word is defined and used, and its rename with the proof that nothing else changes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from vde_dagster.errors import UsageError
from vde_dagster.plugins.editor.desk import Desk
from vde_dagster.plugins.editor.reading import Mention, Reading, Span, Symbol
from vde_dagster.plugins.editor.words.symbols import Symbols
from vde_dagster.project.files import find_files
from vde_dagster.sql.edits import Edit, apply_edits

_MACRO = re.compile(r"@(\w+)")
_NAME = re.compile(r"[A-Za-z_]\w*")


def definitions(symbols: Symbols, path: str, offset: int) -> list[Span]:
    """Return where what stands at an offset is made: a model, column, CTE, alias, or macro."""
    found = symbols.at(path, offset)
    if not found:
        return _macro(symbols.reading, path, offset)
    # A word that names an output is that of the column which it reads, too: that one is meant.
    return [one.span for one in symbols.definitions(found[0].symbol)]


def references(symbols: Symbols, path: str, offset: int) -> list[Span]:
    """Return every place of the project that means what stands at an offset, in order."""
    found = symbols.at(path, offset)
    spans = {one.span for mention in found for one in symbols.mentions(mention.symbol)}
    return sorted(spans, key=lambda span: (span.path, span.start))


def _macro(reading: Reading, path: str, offset: int) -> list[Span]:
    """Find the function or the file of a macro that is called at an offset."""
    text = reading.text(path)
    call = next((m for m in _MACRO.finditer(text) if m.start() <= offset <= m.end()), None)
    if call is None:
        return []
    wanted = re.compile(rf"^\s*(?:def|class)\s+({re.escape(call[1])})\b", re.MULTILINE)
    for file in find_files(reading.project.settings).macros:
        found = wanted.search(reading.text(file))
        if found is not None:
            return [Span(file, found.start(1), found.end(1))]
    return []


def word_at(symbols: Symbols, path: str, offset: int) -> Mention:
    """Return the mention that a rename at an offset is of.

    Raises:
        UsageError: There is none, or it cannot be renamed.
    """
    found = symbols.at(path, offset)
    if not found:
        raise UsageError(
            "there is no column, table or model here whose uses are known",
            hint="names that macros write, and names that may mean two things, are not renamed",
        )
    chosen = next((one for one in found if one.output or not one.defines), found[0])
    if chosen.symbol.kind == "model":
        raise UsageError(
            "a model's name is what readers of the environment ask for: it is not renamed here",
            hint="write another name in its header; the plan says who reads it",
        )
    model = symbols.reading.project.models.get(chosen.symbol.model)
    if chosen.symbol.kind == "column" and model is not None and model.kind.is_external:
        raise UsageError(
            f"{model.name} is a table of others, whose columns are not renamed here",
            hint="rename the column where it is written, and then in external_models.yaml",
        )
    # A bare name in SELECT reads one column and names another: what it names is meant.
    return next((one for one in found if one.defines), chosen)


def rename(desk: Desk, symbols: Symbols, path: str, offset: int, new: str) -> dict[str, list[Edit]]:
    """Return the edits that give a column, CTE or alias another name everywhere it is used.

    What reads a renamed column and shows it under its old name goes on to: the old name is written
    behind the new one. The result is read before it is handed out: no mistake may come of it, and
    no version of any other column or of any model's rows may change.

    Raises:
        UsageError: The name is taken or no name, a macro has a part in it, or something else would
            change.
    """
    if not _NAME.fullmatch(new):
        raise UsageError(f"'{new}' is no plain name", hint="use letters, digits and _")
    mention = word_at(symbols, path, offset)
    symbol, reading = mention.symbol, symbols.reading
    edits: defaultdict[str, dict[Span, Edit]] = defaultdict(dict)
    for one in symbols.mentions(symbol):
        old = reading.text(one.span.path)[one.span.start : one.span.end]
        edits[one.span.path][one.span] = _edit(symbols, one, symbol, old, new)
    texts = {file: apply_edits(reading.text(file), found.values()) for file, found in edits.items()}
    _require_same(desk, reading, symbol, new, texts)
    return {file: sorted(found.values()) for file, found in edits.items()}


def _edit(symbols: Symbols, one: Mention, symbol: Symbol, old: str, new: str) -> Edit:
    """Return the edit of one mention; a bare column in SELECT is two mentions of one word."""
    span = one.span
    here = [m for m in symbols.at(span.path, span.start) if m.span == span]
    reads = next((m.symbol for m in here if m.output), None)
    names = next((m.symbol for m in here if m.defines), None)
    if reads is None or names is None or reads == names:
        return Edit(span.start, span.end, new)
    renamed = {m.symbol for m in symbols.mentions(symbol)}
    read, named = (new if one in renamed else old for one in (reads, names))
    return Edit(span.start, span.end, read if read == named else f"{read} AS {named}")


def _require_same(
    desk: Desk, before: Reading, symbol: Symbol, new: str, texts: Mapping[str, str]
) -> None:
    """Read the project with the new texts and compare: only the name may be another."""
    after = desk.imagine(texts)
    known = {str(mistake) for mistake in before.mistakes}
    wrong = [mistake for mistake in after.mistakes if str(mistake) not in known]
    if wrong:
        raise UsageError(
            f"named '{new}', the project would have a mistake: {wrong[0]}",
            hint="take a name that nothing else there has",
        )
    for name, old in before.snapshots.items():
        now = after.snapshots.get(name)
        if now is None or now.version.rows != old.version.rows:
            raise UsageError(f"named '{new}', {name} would have other rows", hint="edit it by hand")
        own = symbol.kind == "column" and name == symbol.model
        versions = {c.name.lower(): c.version for c in old.columns}
        new_ones = {c.name.lower(): c.version for c in now.columns}
        if sorted(versions.values()) != sorted(new_ones.values()) or (
            not own and set(versions) - set(new_ones) - {symbol.name}
        ):
            raise UsageError(
                f"named '{new}', columns of {name} would have other values", hint="edit it by hand"
            )
