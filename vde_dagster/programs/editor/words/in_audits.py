"""The words of audits, analyzed as queries over the models that use the audits."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from vde_dagster.base.names import ModelName, quote
from vde_dagster.errors import VdeError
from vde_dagster.programs.editor.reading import Mention, Reading, Span, Symbol, column_names
from vde_dagster.project.files import find_files
from vde_dagster.project.model import Model
from vde_dagster.project.reading.audits import AuditDefinition, read_audit
from vde_dagster.project.reading.statements import read_blocks
from vde_dagster.sql.edits import Edit, Expanded

_AUDIT = re.compile(r"\bAUDIT\s*\(", re.IGNORECASE)
_THIS_MODEL = re.compile(r"@this_model\b", re.IGNORECASE)


class AuditQuery(NamedTuple):
    """An audit's query, with `@this_model` replaced by one model that uses the audit.

    Args:
        model: A model made of the audit's query.
        reads: The models that the query may name.
        start: Offset of the query in the file.
        end: Offset of the query's end.
    """

    model: Model
    reads: frozenset[ModelName]
    start: int
    end: int


class _AuditInFile(NamedTuple):
    path: str
    definition: AuditDefinition


class AuditFiles:
    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    @cached_property
    def _definitions(self) -> list[_AuditInFile]:
        settings = self._reading.project.settings
        found = []
        for path in find_files(settings).sql:
            text = self._reading.text(path)
            if not _AUDIT.search(text):
                continue
            try:
                source, blocks = read_blocks(Path(path), text, settings.dialect)
                audits = (one for one in blocks if one.header.word == "AUDIT" and one.statements)
                for block in audits:
                    audit = read_audit(block, source, settings.dialect)
                    found.append(_AuditInFile(path, audit))
            except VdeError:
                continue  # The file has a mistake, which diagnostics report.
        return found

    @cached_property
    def _callers(self) -> dict[str, list[Model]]:
        found: defaultdict[str, list[Model]] = defaultdict(list)
        for model in self._reading.project.models.values():
            for name in dict.fromkeys(audit.name for audit in model.audits):
                found[name].append(model)
        return found

    def audits_reading(self, model: Model) -> list[AuditQuery]:
        every = (one for found in self._definitions for one in self._queries(found))
        return [one for one in every if model.name in one.reads]

    def audits_in(self, path: str) -> list[AuditQuery]:
        """Return the audits that a file defines, once for each model that uses the audit."""
        own = (found for found in self._definitions if found.path == path)
        return [one for found in own for one in self._queries(found)]

    def _queries(self, found: _AuditInFile) -> Iterator[AuditQuery]:
        definition, query = found.definition, found.definition.query
        written = Expanded(definition.source.text[query.start : query.end], ((0, query.start),))
        for caller in self._callers.get(definition.name, ()):
            reads = {*caller.depends_on, *caller.audited_against}
            edits = []
            if not definition.standalone:
                reads.add(caller.name)
                table = quote(*caller.name)
                matches = _THIS_MODEL.finditer(written.text)
                edits = [Edit(match.start(), match.end(), table) for match in matches]
            expanded = written.edited(edits)
            model = replace(
                caller,
                name=ModelName(caller.name.namespace, f"{caller.name.name}:{definition.name}"),
                query=expanded.text if definition.dialect == "spark" else None,
                origins=expanded.runs,
                source=self._reading.text(found.path),
                location=replace(definition.location, path=Path(found.path)),
                audits=(),
            )
            yield AuditQuery(model, frozenset(reads), query.start, query.end)

    def possible_columns(self, audit: AuditQuery) -> Iterator[Mention]:
        """Yield words that may be columns, for an audit query that cannot be parsed."""
        path, text = audit.model.location.path.as_posix(), audit.model.source
        for name in sorted(audit.reads):
            known = column_names(self._reading.snapshots, name) or ()
            for word in re.compile(r"\w+").finditer(text, audit.start, audit.end):
                if word[0].lower() in known:
                    symbol = Symbol("column", name, word[0].lower())
                    yield Mention(Span(path, *word.span()), symbol, by_hand=True)
