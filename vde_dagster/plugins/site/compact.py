"""A document as scripts that pages load: names become numbers, details are in separate files.

A page from `file://` may not fetch, but it may add script tags. So each file calls one function,
`vde(name, value)`. `index` is loaded at once; it has the data for search, lists and the graph. The
other files have models, environments, publications and differences. They are loaded when a page
shows them, and contain JSON, deflated (zlib's format) and in base64, a fifth of the plain size.

A text is written as its position in one of two lists: `words` has frequent texts, `names` has
models and then other tables, in the document's order. Differences have numbers in place of the ids
of snapshots. Instants are seconds since 1970 in UTC; ranges are flat lists of starts and lengths.
Iceberg snapshots are texts, as a script's numbers have 53 bits. Empty values are left out.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from vde_dagster.api.reports import Document
from vde_dagster.api.values import mask, names_secret
from vde_dagster.plugins.site.layout import place_nodes

SCRIPT_START = b'vde("'
"""First bytes of each script."""

FORMAT_VERSION = 2
"""Increased when older pages and scripts would be incompatible."""

MODELS_PER_FILE = 50
"""Number of models whose details are in one file."""

LARGEST_FILE = 100_000
"""Size in bytes after which publications or differences continue in another file."""


@dataclass(slots=True)
class TextNumbers:
    """Numbers distinct texts from 0, in the order of their first use."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str | None) -> int:
        """Return the number of a text; None has the number -1."""
        return -1 if text is None else self.numbers.setdefault(text, len(self.numbers))


def script(name: str, value: Any) -> bytes:
    r"""Return a file that passes a value to the page, and is safe inside `<script>`.

    >>> script("x", ["</script>"])
    b'vde("x",["\\u003c/script\\u003e"])\n'
    """
    text = msgspec.json.encode(value).decode()
    for character in "<>\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'vde("{name}",{text})\n'.encode()


def compact(document: Document) -> dict[str, bytes]:
    """Convert a document to the contents of a site's JavaScript files, by name."""
    return _Compactor(document).scripts()


@dataclass(slots=True)
class _Compactor:
    document: Document
    words: TextNumbers = field(default_factory=TextNumbers)
    names: TextNumbers = field(default_factory=TextNumbers)
    snapshots: TextNumbers = field(default_factory=TextNumbers)
    columns: dict[str, dict[str, int]] = field(default_factory=dict)

    def scripts(self) -> dict[str, bytes]:
        document = self.document
        for model in document.models:
            self.names.number(model.name)
            self.columns[model.name] = {
                column.name.lower(): at for at, column in enumerate(model.columns)
            }
        tables = self._tables_by_model()
        models = [self._details(one, tables.get(one.name, {})) for one in document.models]
        files: dict[str, Any] = {
            f"models-{start // MODELS_PER_FILE}": models[start : start + MODELS_PER_FILE]
            for start in range(0, len(models), MODELS_PER_FILE)
        }
        files["environments"] = self._environments()
        publications = [self._publication(one) for one in document.publications]
        differences = [
            _drop_empty(
                definitions=[self._difference(each) for each in one.definitions],
                tables=[self.names.number(name) for name in one.tables],
                data=[
                    _trim_end(
                        [
                            self.names.number(each.model),
                            each.before,
                            each.after,
                            each.added,
                            each.removed,
                        ]
                    )
                    for each in one.data
                ],
            )
            for one in document.differences
        ]
        published_in = _divide_into_files(files, "publications", publications)
        differs_in = _divide_into_files(files, "differences", differences)
        index: dict[str, Any] = {
            "form": FORMAT_VERSION,
            "project": document.project,
            "of": document.of,
            "as_of": _seconds(document.as_of),
            "catalog": document.catalog,
            "at_once": MODELS_PER_FILE,
            "models": list(self._index_rows()),
            "exposures": [
                _drop_empty(
                    name=one.name,
                    what=one.what,
                    owner=one.owner,
                    url=one.url,
                    said=one.description,
                    reads=[[self.names.number(model), column or 0] for model, column in one.reads],
                )
                for one in document.exposures
            ],
            "environments": [
                _drop_empty(
                    name=one.name,
                    version=one.version,
                    at=_seconds(one.published_at),
                    by=one.published_by,
                    plan=one.plan,
                    note=one.note,
                    frozen=one.frozen,
                    expires=_seconds(one.expires_at),
                )
                for one in document.environments
            ],
            "publications": [
                [
                    one.environment,
                    one.version,
                    one.what,
                    _seconds(one.published_at),
                    one.published_by,
                    one.models_added,
                    one.models_changed,
                    one.models_removed,
                    *where,
                ]
                for one, where in zip(document.publications, published_in, strict=True)
            ],
            "differences": [
                [one.new, one.old, len(one.definitions), len(one.tables), *where]
                for one, where in zip(document.differences, differs_in, strict=True)
            ],
            "failed_plans": [
                [one.environment, one.plan, _seconds(one.at), one.message or ""]
                for one in document.failures
            ],
            "failed_audits": list(self._failed_audits()),
            "names": list(self.names.numbers),
            "words": list(self.words.numbers),
        }
        packed = {name: script(name, _compress(value)) for name, value in files.items()}
        # Masked by value: in the script's text, keys or a link's query would be replaced, too.
        index = mask(index)
        for shown, exposure in zip(index["exposures"], document.exposures, strict=True):
            shown.update(_drop_empty(url=exposure.url and _mask_link(exposure.url)))
        return {"index": script("index", index), **packed}

    def _failed_audits(self) -> Iterator[list[Any]]:
        shown: dict[str, list[int]] = {}
        for at, environment in enumerate(self.document.environments):
            for id_ in {cell.table for cell in environment.models if cell.table}:
                shown.setdefault(id_, []).append(at)
        for table in self.document.tables:
            for one in table.audits:
                if one.failed_rows and table.id in shown:
                    number = self.names.number(one.model)
                    values = [one.audit, one.failed_rows, _seconds(one.at), one.plan]
                    yield [number, *values, shown[table.id]]

    def _index_rows(self) -> Iterator[list[Any]]:
        number = self.names.number
        own = {model.name for model in self.document.models}
        parents = [
            [number(name) for name in model.parents if name in own]
            for model in self.document.models
        ]
        # Parents come first in a document; otherwise the edge points to the model itself.
        before = [[one for one in above if one < at] for at, above in enumerate(parents)]
        for model, (layer, at) in zip(self.document.models, place_nodes(before), strict=True):
            yield [
                self.words.number(model.kind),
                model.description or 0,
                [self.words.number(column.name) for column in model.columns],
                [number(name) for name in model.parents],
                layer,
                at,
                self.words.number(model.owner or None),
                [self.words.number(tag) for tag in model.tags],
            ]

    def _tables_by_model(self) -> dict[str, dict[int, Document.Table]]:
        """Map each model to its visible tables, by the numbers of the tables."""
        numbers = {table.id: at for at, table in enumerate(self.document.tables)}
        found: dict[str, dict[int, Document.Table]] = {}
        for environment in self.document.environments:
            for cell in environment.models:
                at = numbers.get(cell.table or "")
                if at is not None:
                    found.setdefault(cell.model, {})[at] = self.document.tables[at]
        return found

    def _details(
        self, model: Document.Model, tables: Mapping[int, Document.Table]
    ) -> dict[str, Any]:
        word = self.words.number
        return _drop_empty(
            version=model.version,
            cron=word(model.cron),
            cron_tz=model.cron_tz,
            unit=model.unit,
            grains=[list(grain) for grain in model.grains],
            partitioned_by=list(model.partitioned_by),
            path=model.path,
            line=model.line,
            source=model.source,
            query=_find_query(model.query, model.source),
            opaque=model.opaque,
            types=[word(column.type) for column in model.columns],
            said={
                str(at): [column.description, column.inherited_from]
                if column.inherited_from
                else [column.description]
                for at, column in enumerate(model.columns)
                if column.description
            },
            flows=self._flows(model),
            audits=[
                [audit.name, int(audit.blocking), audit.query.strip()] for audit in model.audits
            ],
            tests=list(model.tests),
            unshown=not model.is_shown,
            tables={str(at): self._table(model.name, one) for at, one in sorted(tables.items())},
        )

    def _flows(self, model: Document.Model) -> list[list[Any]]:
        """Return a model's column lineage as [parent, how, [column, source, column, source, …]].

        There is one list for each parent and kind of use (`how`). `column` is 1 for the model's
        first column, and 0 if the source determines rows, as in a filter. `source` is the position
        in the parent's columns, from 0, or the name of a column that the parent does not list.
        """
        own = self.columns[model.name]
        found: dict[tuple[int, int], list[Any]] = {}
        for flow in model.flows:
            known = self.columns.get(flow.parent, {})
            to = 0 if flow.column is None else 1 + own.get(flow.column.lower(), -1)
            if flow.column is not None and not to:
                continue
            key = (self.names.number(flow.parent), self.words.number(flow.how))
            found.setdefault(key, []).extend((to, known.get(flow.source.lower(), flow.source)))
        return [[parent, how, pairs] for (parent, how), pairs in found.items()]

    def _table(self, model: str, table: Document.Table) -> dict[str, Any]:
        fills, start, at = [], 0, 0
        for fill in table.fills:
            begun, recorded = _seconds(fill.range.start), _seconds(fill.at)
            seconds = None if fill.seconds is None else round(fill.seconds, 2)
            length = _seconds(fill.range.end) - begun
            counts = [fill.rows, fill.bytes, seconds, int(fill.skipped) or None, fill.refresh]
            fills.append([begun - start, length, recorded - at, *_trim_end(counts)])
            start, at = begun, recorded
        return _drop_empty(
            name=table.name,
            branch=table.branch,
            filled=_ranges(table.filled),
            fills=fills,
            audits=[
                [one.audit, int(one.blocking), one.failed_rows, _seconds(one.at), one.plan]
                for one in table.audits
                if one.model == model
            ],
        )

    def _environments(self) -> dict[str, Any]:
        words = TextNumbers()
        tables = {table.id: at for at, table in enumerate(self.document.tables)}

        def cell(one: Document.Cell) -> list[Any]:
            same = one.view is not None and one.view.split(".")[-1] == one.model.split(".")[-1]
            view = words.number(one.view.rpartition(".")[0]) if same and one.view else one.view
            return _trim_end(
                [
                    self.names.number(one.model),
                    words.number(one.version),
                    words.number(one.whose),
                    tables.get(one.table or "", -1),
                    view,
                    words.number(one.change),
                    words.number(one.category),
                    one.rows,
                    None if one.pinned is None else str(one.pinned),
                    _seconds(one.since),
                    _ranges(one.filled),
                    _ranges(one.missing),
                ]
            )

        cells = [[cell(one) for one in each.models] for each in self.document.environments]
        return {"cells": cells, "words": list(words.numbers)}

    def _publication(self, one: Document.Version) -> dict[str, Any]:
        return _drop_empty(
            plan=one.plan,
            note=one.note,
            dropped=one.dropped,
            definitions=[self._difference(each) for each in one.definitions],
            data=[
                _trim_end(
                    [
                        [self.names.number(name) for name in each.models],
                        self.words.number(each.what),
                        each.rows,
                        each.added,
                        each.removed,
                        _ranges(each.filled),
                    ]
                )
                for each in one.data
            ],
        )

    def _difference(self, one: Document.Difference) -> dict[str, Any]:
        return _drop_empty(
            model=self.names.number(one.model),
            change=one.change,
            category=one.category,
            added=list(one.added),
            removed=list(one.removed),
            changed=list(one.changed),
            reasons=list(one.reasons),
            was=self.snapshots.number(one.old),
            now=self.snapshots.number(one.new),
        )


def _mask_link(url: str) -> str:
    """Return a link with its whole query, or masked if it contains a secret.

    >>> _mask_link("https://bi/x?id=5"), _mask_link("https://bi/x?id=5&token=hush")
    ('https://bi/x?id=5', 'https://bi/x?id=***&token=***')
    """
    # `mask` replaces every value of a query that it does not know as harmless.
    address, *parameters = re.split("[?&;]", url)
    names = [parameter.partition("=")[0] for parameter in parameters]
    has_secret = mask(address) != address or any(map(names_secret, names))
    return mask(url) if has_secret else url


def _compress(value: Any) -> str:
    return b64encode(zlib.compress(msgspec.json.encode(value), 9)).decode()


def _divide_into_files(
    files: dict[str, Any], kind: str, values: Sequence[Any]
) -> list[tuple[int, int]]:
    """Add values to files of limited size, and return the file and position of each value."""
    places: list[tuple[int, int]] = []
    number, size = -1, LARGEST_FILE
    for value in values:
        if size >= LARGEST_FILE:
            number, size = number + 1, 0
            files[f"{kind}-{number}"] = []
        held = files[f"{kind}-{number}"]
        places.append((number, len(held)))
        held.append(value)
        size += len(msgspec.json.encode(value))
    return places


def _find_query(query: str | None, source: str) -> str | list[int] | None:
    """Return the place of a query in a source: start and length, in UTF-16 units.

    Whitespace may differ. If the source does not contain the query, return the query.

    >>> _find_query("SELECT 1", "MODEL (name a.b); SELECT\\n  1")
    [18, 10]
    """
    if query is None:
        return None
    kept = [at for at, character in enumerate(source) if not character.isspace()]
    bare = "".join(query.split())
    at = "".join(source.split()).find(bare)
    if at < 0 or not bare:
        return query
    start, end = kept[at], kept[at + len(bare) - 1] + 1
    if source[start:end].split() != query.split():
        return query
    return [
        len(text.encode("utf-16-le", "surrogatepass")) // 2
        for text in (source[:start], source[start:end])
    ]


def _seconds(at: datetime | None) -> Any:
    return None if at is None else int(at.timestamp() // 1)


def _ranges(ranges: Iterable[Document.Span]) -> list[int]:
    return [
        number
        for one in ranges
        for number in (_seconds(one.start), _seconds(one.end) - _seconds(one.start))
    ]


def _trim_end(values: list[Any]) -> list[Any]:
    while values and (values[-1] is None or values[-1] in (-1, [])):
        values.pop()
    return values


def _drop_empty(**values: Any) -> dict[str, Any]:
    # Zero is kept.
    return {
        name: value
        for name, value in values.items()
        if value is not None and value is not False and value not in ("", [], {})
    }
