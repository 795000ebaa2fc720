"""Symbols: the objects that words of files refer to, and all words for one object."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from vde_dagster.base.names import ModelName
from vde_dagster.programs.editor.reading import Mention, Reading, Span, Symbol
from vde_dagster.programs.editor.words.in_audits import AuditFiles, AuditQuery
from vde_dagster.programs.editor.words.in_models import FileSymbols, find_symbols
from vde_dagster.programs.editor.words.in_readers import ReaderFiles
from vde_dagster.programs.editor.words.in_yaml import is_yaml, mentions
from vde_dagster.project.dag import children
from vde_dagster.project.model import Model

Remembered = dict[tuple[str, str], FileSymbols]


class Symbols:
    """An index of the words in a project's files, built file by file when first used.

    Args:
        remembered: Earlier results, by the model's version and text.
    """

    def __init__(self, reading: Reading, remembered: Remembered | None = None) -> None:
        self.reading = reading
        self._remembered = {} if remembered is None else remembered
        self._children = children(reading.project.models)
        self._in_yaml: dict[str, list[Mention]] = {}
        self._readers = ReaderFiles(reading)
        self._audits = AuditFiles(reading)
        self._in_audits: dict[ModelName, list[Mention]] = {}

    def mentions_at(self, path: str, offset: int) -> list[Mention]:
        """Return the mentions at an offset, the shortest first."""
        found = [
            mention
            for model in self.reading.models_in(path)
            for mention in self.in_model(model).mentions
            if mention.span.start <= offset <= mention.span.end
        ]
        if not found:
            words = self._mentions_in_other_file(path)
            found = [one for one in words if one.span.start <= offset <= one.span.end]
        return sorted(found, key=lambda one: (one.span.end - one.span.start, one.defines))

    def _mentions_in_other_file(self, path: str) -> Sequence[Mention]:
        if path in self._tests:
            return self.in_yaml(path)
        if path in self._readers.paths:
            return self._readers.mentions(path)
        if not path.endswith(".sql"):
            return ()
        found = [
            one for audit in self._audits.audits_in(path) for one in self._audit_mentions(audit)
        ]
        return list(dict.fromkeys(found))

    def root(self, symbol: Symbol) -> Symbol:
        """Follow a column through `SELECT *` to its source column; keep any other symbol."""
        seen: set[Symbol] = set()
        while symbol not in seen:
            seen.add(symbol)
            model = self.reading.project.models.get(symbol.model)
            if model is None:
                break
            symbol = self.in_model(model).links.get(symbol, symbol)
        return symbol

    def find_definitions(self, symbol: Symbol) -> list[Mention]:
        """Return the mentions that define a symbol.

        For a column from `*`, return the mentions that define its source column.
        """
        seen: set[Symbol] = set()
        while symbol not in seen:
            seen.add(symbol)
            model = self.reading.project.models.get(symbol.model)
            if model is None:
                return []
            known = self.in_model(model)
            found = [one for one in known.mentions if one.defines and one.symbol == symbol]
            if found or symbol not in known.links:
                return found
            symbol = known.links[symbol]
        return []

    def mentions(self, symbol: Symbol) -> list[Mention]:
        """Return all mentions of a symbol in the project, including columns from `SELECT *`."""
        found: list[Mention] = []
        symbol = self.root(symbol)
        waiting, seen = [symbol], {symbol}
        while waiting:
            one = waiting.pop()
            for model in self._models_around(one):
                known = self.in_model(model)
                found += [mention for mention in known.mentions if mention.symbol == one]
                behind = [outer for outer, inner in known.links.items() if inner == one]
                waiting += [outer for outer in behind if outer not in seen]
                seen.update(behind)
            for path, names in self._tests.items():
                if one.model in names:
                    found += [mention for mention in self.in_yaml(path) if mention.symbol == one]
            if one.kind in ("model", "column"):
                found += self._mentions_outside_models(one)
        return list(dict.fromkeys(found))

    def _mentions_outside_models(self, symbol: Symbol) -> Iterator[Mention]:
        yield from self._readers.find_mentions(symbol)
        model = self.reading.project.models.get(symbol.model)
        for audit in self._audits.audits_reading(model) if model is not None else ():
            yield from (one for one in self._audit_mentions(audit) if one.symbol == symbol)
        if symbol.kind != "column":
            return
        word = re.compile(rf"\b{re.escape(symbol.name)}\b", re.IGNORECASE)
        for model in self._models_around(symbol):
            path = model.location.path.as_posix()
            if not path.endswith((".sql", ".csv")) and not is_yaml(path):
                for match in word.finditer(self.reading.text(path)):
                    yield Mention(Span(path, *match.span()), symbol, by_hand=True)

    def _audit_mentions(self, audit: AuditQuery) -> list[Mention]:
        own = audit.model.name
        known = self._in_audits.get(own)
        if known is None:
            found = find_symbols(audit.model, self.reading.snapshots, with_header=False).mentions
            known = self._in_audits[own] = [
                one._replace(output=False)
                for one in found or self._audits.possible_columns(audit)
                if one.symbol.kind in ("model", "column") and one.symbol.model != own
            ]
        return known

    @cached_property
    def _tests(self) -> Mapping[str, set[ModelName]]:
        found: defaultdict[str, set[ModelName]] = defaultdict(set)
        for test in self.reading.project.tests:
            found[test.location.path.as_posix()] |= {test.model, *(name for name, _ in test.inputs)}
        return found

    def in_yaml(self, path: str) -> list[Mention]:
        if path not in self._in_yaml:
            self._in_yaml[path] = mentions(self.reading, path, self._ctes)
        return self._in_yaml[path]

    def _ctes(self, name: ModelName) -> Mapping[str, int]:
        model = self.reading.project.models.get(name)
        known = self.in_model(model).mentions if model is not None else ()
        return {
            one.symbol.name: one.symbol.scope
            for one in known
            if one.symbol.kind == "cte" and one.defines
        }

    def in_model(self, model: Model) -> FileSymbols:
        path = model.location.path.as_posix()
        if is_yaml(path):
            own = [one for one in self.in_yaml(path) if one.symbol.model == model.name]
            return FileSymbols(own)
        snapshot = self.reading.snapshots.get(model.name)
        key = (snapshot.id if snapshot is not None else "", f"{model.name}\0{model.source}")
        known = self._remembered.get(key)
        if known is None:
            known = self._remembered[key] = find_symbols(model, self.reading.snapshots)
        if path not in self.reading.broken:
            return known
        # The places are those of an earlier text.
        text = self.reading.text(path)
        spans = ((one, one.span.start, one.span.end) for one in known.mentions)
        same = [one for one, a, b in spans if text[a:b] == model.source[a:b]]
        return FileSymbols(same, known.links, whole=False)

    def _models_around(self, symbol: Symbol) -> list[Model]:
        models = self.reading.project.models
        names = [symbol.model]
        if symbol.kind in ("model", "column"):
            names += self._children.get(symbol.model, [])
        return [models[name] for name in names if name in models]
