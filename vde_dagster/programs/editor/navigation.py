"""Definitions and uses of a word, and renames with a proof that nothing else changes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import listed
from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.programs.editor.reading import Mention, Reading, Span, Symbol, column_names
from vde_dagster.programs.editor.session import EditorSession
from vde_dagster.programs.editor.words.in_yaml import is_yaml
from vde_dagster.programs.editor.words.symbols import Symbols
from vde_dagster.project.files import find_files
from vde_dagster.sql.edits import Edit, apply_edits

_MOST_PLACES = 5
_MACRO = re.compile(r"@(\w+)")
_NAME = re.compile(r"[A-Za-z_]\w*")


def find_definitions(symbols: Symbols, path: str, offset: int) -> list[Span]:
    """Return the definitions of the model, column, CTE, alias or macro at an offset."""
    found = symbols.mentions_at(path, offset)
    if not found:
        return _macro_definition(symbols.reading, path, offset)
    # A word that names an output also reads a column: the column is meant.
    return [one.span for one in symbols.find_definitions(found[0].symbol)]


def find_references(symbols: Symbols, path: str, offset: int) -> list[Span]:
    """Return all places in the project that refer to the object at an offset, sorted."""
    found = symbols.mentions_at(path, offset)
    spans = {one.span for mention in found for one in symbols.mentions(mention.symbol)}
    return sorted(spans, key=lambda span: (span.path, span.start))


def _macro_definition(reading: Reading, path: str, offset: int) -> list[Span]:
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


def find_renamable_word(symbols: Symbols, path: str, offset: int) -> Mention:
    """Return the renamable word at an offset.

    Raises:
        UsageError: The word cannot be renamed.
    """
    if path in symbols.reading.broken and not is_yaml(path):
        raise UsageError(
            "the file has a mistake, so nothing in it can be renamed", hint="correct it"
        )
    found = symbols.mentions_at(path, offset)
    if not found:
        raise UsageError(
            "the word here cannot be renamed, because its uses are unknown",
            hint="names written by macros, and ambiguous names, cannot be renamed",
        )
    chosen = next((one for one in found if one.output or not one.defines), found[0])
    root = symbols.root(chosen.symbol)
    model = symbols.reading.project.models.get(root.model)
    if root.kind in ("model", "column") and model is not None and model.kind.is_external:
        raise UsageError(
            f"{model.name} is an external table, so it and its columns cannot be renamed here",
            hint="rename it at its source, and then in external_models.yaml",
        )
    # A bare name in SELECT reads one column and names another: the named one is meant.
    return next((one for one in found if one.defines), chosen)


def rename_symbol(
    session: EditorSession, symbols: Symbols, path: str, offset: int, new: str
) -> dict[str, list[Edit]]:
    """Return the edits that rename a model, column, CTE or alias in all files, by file.

    `SELECT a` becomes `SELECT b AS a` if only the column that is read is renamed to `b`, and
    `SELECT a AS b` if only the output column is renamed.

    Raises:
        UsageError: The new name is taken or invalid, the old name is written by a macro, or the
            rename would cause a mistake or change a model's rows or values.
    """
    mention = find_renamable_word(symbols, path, offset)
    symbol, reading = symbols.root(mention.symbol), symbols.reading
    if symbol.kind == "model":
        return _rename_model(session, symbols, symbol, new)
    if not _NAME.fullmatch(new):
        raise UsageError(f"'{new}' is not a plain name", hint="use letters, digits and _")
    edits: defaultdict[str, dict[Span, Edit]] = defaultdict(dict)
    for one in _require_mentions(symbols, symbol, new):
        old = reading.text(one.span.path)[one.span.start : one.span.end]
        edits[one.span.path][one.span] = _mention_edit(symbols, one, symbol, old, new)
    texts = {file: apply_edits(reading.text(file), found.values()) for file, found in edits.items()}
    _require_unchanged_rows(session, reading, symbol, new, texts)
    return {file: sorted(found.values()) for file, found in edits.items()}


def _require_mentions(symbols: Symbols, symbol: Symbol, new: str) -> list[Mention]:
    """Return a symbol's mentions; raise UsageError if only the author can change a mention."""
    found = symbols.mentions(symbol)
    spans = [one.span for one in found if one.by_hand]
    spans += _unread_words(symbols.reading, symbol, [one.span for one in found])
    places = [_file_and_line(symbols.reading, span) for span in spans]
    if places:
        raise UsageError(
            f"'{symbol.name or symbol.model}' cannot be renamed to '{new}' here: "
            f"{listed(sorted(set(places)), _MOST_PLACES)} may name it, too",
            hint="rename it by hand, in these places as well",
        )
    return found


def _unread_words(reading: Reading, symbol: Symbol, known: Sequence[Span]) -> Iterator[Span]:
    """Yield the words in files with mistakes that may name a model or column."""
    if symbol.kind not in ("model", "column"):
        return
    name = re.escape(symbol.name or symbol.model.name)
    word = re.compile(rf"(?<!\w){name}(?!\w)", re.IGNORECASE)
    located = (one.location for one in reading.project.problems if one.location is not None)
    for path in {*reading.broken, *(location.path.as_posix() for location in located)}:
        outdated = path in reading.broken and not is_yaml(path)
        own = [] if outdated else [one for one in known if one.path == path]
        for start, end in (match.span() for match in word.finditer(reading.text(path))):
            if not any(one.start <= start and end <= one.end for one in own):
                yield Span(path, start, end)


def _file_and_line(reading: Reading, span: Span) -> str:
    return f"{span.path}:{reading.text(span.path).count(chr(10), 0, span.start) + 1}"


def new_model_name(old: ModelName, new: str) -> ModelName:
    """Return a model's new name, in its old schema if `new` has none.

    Raises:
        UsageError: The name is not valid.
    """
    parts = new.strip().split(".")
    if len(parts) > 2 or not all(_NAME.fullmatch(part) for part in parts):
        raise UsageError(f"'{new}' is not a model's name", hint="write name, or schema.name")
    return ModelName(parts[0].lower() if parts[1:] else old.namespace, parts[-1].lower())


def file_move(symbols: Symbols, name: ModelName, new: ModelName) -> tuple[str, str] | None:
    """Return (old path, new path) if a model's file can get the model's new name, else None."""
    model = symbols.reading.project.models[name]
    path = model.location.path
    to = path.with_name(f"{new.name}{path.suffix}")
    taken = (symbols.reading.project.root / to).exists()
    alone = len(symbols.reading.models_in(path.as_posix())) == 1
    if path.stem.lower() != name.name or new.name == name.name or taken or not alone:
        return None
    return path.as_posix(), to.as_posix()


def _rename_model(
    session: EditorSession, symbols: Symbols, symbol: Symbol, typed: str
) -> dict[str, list[Edit]]:
    reading, names = symbols.reading, symbols.reading.project.names
    new = new_model_name(symbol.model, typed)
    if new in reading.project.models:
        raise UsageError(f"the model {new} already exists", hint="choose another name")
    known = _require_mentions(symbols, symbol, str(new))
    if not any(one.defines for one in known):
        raise UsageError(
            f"the name of {symbol.model} is not written in a SQL header",
            hint="rename the model in its own file, then fix the errors in models that read it",
        )
    edits: defaultdict[str, dict[Span, Edit]] = defaultdict(dict)
    for one in known:
        span = one.span
        old = reading.text(span.path)[span.start : span.end]
        bare = one.qualifies and "." not in old
        if not bare and names.model_name_or_none(ModelName.split(old)) != symbol.model:
            raise UsageError(
                f"{span.path} refers to {symbol.model} by {old}, which a rename cannot edit",
                hint="edit it by hand",
            )
        edits[span.path][span] = Edit(span.start, span.end, new.name if bare else str(new))
    texts = {file: apply_edits(reading.text(file), found.values()) for file, found in edits.items()}
    after = _read_renamed(session, reading, typed, texts)
    if symbol.model in after.project.models:
        readers = [n for n, m in after.project.models.items() if symbol.model in m.depends_on]
        raise UsageError(
            f"after renaming to '{typed}', {listed(readers)} would still read {symbol.model}",
            hint="rename it there by hand",
        )
    for name, snapshot in reading.snapshots.items():
        now = after.snapshots.get(new if name == symbol.model else name)
        if now is None or now.version.rows != snapshot.version.rows:
            raise UsageError(
                f"renaming to '{typed}' would change rows of {name}", hint="edit by hand"
            )
    return {file: sorted(found.values()) for file, found in edits.items()}


def _mention_edit(symbols: Symbols, one: Mention, symbol: Symbol, old: str, new: str) -> Edit:
    # A column in SELECT without an alias reads a column, and also names one. If only one of the two
    # is renamed, the edit adds an alias.
    span = one.span
    if one.keeps:
        return Edit(span.start, span.end, old + one.keeps.format(new))
    here = [m for m in symbols.mentions_at(span.path, span.start) if m.span == span]
    reads = next((m.symbol for m in here if m.output), None)
    names = next((m.symbol for m in here if m.defines), None)
    if reads is None or names is None or reads == names:
        return Edit(span.start, span.end, new)
    renamed = {m.symbol for m in symbols.mentions(symbol)}
    read, named = (new if one in renamed else old for one in (reads, names))
    return Edit(span.start, span.end, read if read == named else f"{read} AS {named}")


def _read_renamed(
    session: EditorSession, before: Reading, new: str, texts: Mapping[str, str]
) -> Reading:
    after = session.read_with_texts(texts)
    known = {str(one) for one in before.problems}
    # A warning in a reader's file, too, is about a name that no longer exists.
    wrong = [
        one
        for one in after.problems
        if str(one) not in known
        and (isinstance(one, ProjectError) or one.location.path.suffix != ".sql")
    ]
    if wrong:
        place = f"{wrong[0].location}: " if wrong[0].location is not None else ""
        raise UsageError(
            f"renaming to '{new}' would cause a mistake: {place}{wrong[0].message}",
            hint=_rename_hint(before, new, wrong[0]),
        )
    return after


def _rename_hint(before: Reading, new: str, wrong: ProjectError | Problem) -> str:
    named = new.lower().rpartition(".")[2]
    where = wrong.location.path.as_posix() if wrong.location is not None else ""
    models = before.models_in(where)
    tables = {name for model in models for name in (model.name, *model.depends_on)}
    for name in sorted(tables):
        if named in (column_names(before.snapshots, name) or ()):
            return f"choose another name: {name} already has a column '{named}'"
    if wrong.location is None:
        return "rename it by hand"
    return f"rename it by hand, in {wrong.location} as well"


def _require_unchanged_rows(
    session: EditorSession, before: Reading, symbol: Symbol, new: str, texts: Mapping[str, str]
) -> None:
    after = _read_renamed(session, before, new, texts)
    for name, old in before.snapshots.items():
        now = after.snapshots.get(name)
        if now is None or now.version.rows != old.version.rows:
            raise UsageError(
                f"renaming to '{new}' would change rows of {name}", hint="rename it by hand"
            )
        own = symbol.kind == "column" and name == symbol.model
        versions = {c.name.lower(): c.version for c in old.columns}
        new_ones = {c.name.lower(): c.version for c in now.columns}
        if sorted(versions.values()) != sorted(new_ones.values()) or (
            not own and set(versions) - set(new_ones) - {symbol.name}
        ):
            raise UsageError(
                f"renaming to '{new}' would change values of {name}", hint="edit it by hand"
            )
