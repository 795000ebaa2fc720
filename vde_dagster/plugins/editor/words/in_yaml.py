"""Words of YAML files: models, columns and CTEs in unit tests and in declarations of external
models, and what may stand at the cursor of one that is half written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation, UsageError
from vde_dagster.plugins.editor.reading import Mention, Reading, Span, Symbol, columns_of
from vde_dagster.plugins.editor.words.ctes import ctes
from vde_dagster.project.files import find_files
from vde_dagster.project.model import Model
from vde_dagster.project.reading import external_models, unit_tests
from vde_dagster.sql.scanner import SourceText

Scopes = Callable[[ModelName], Mapping[str, int]]
"""The numbers of a model's common table expressions, by their names."""


def is_yaml(path: str) -> bool:
    """Say whether a file is YAML by its name."""
    return path.endswith((".yaml", ".yml"))


def mentions(reading: Reading, path: str, scopes: Scopes) -> list[Mention]:
    """Return the words of a file of tests or external models with what they stand for."""
    text = reading.text(path)
    if "{{" in text or "{%" in text:
        return []  # What Jinja writes has no place in the file.
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return []
    known = _Words(reading, path, SourceText(reading.project.root / path, text), scopes)
    if path in {test.location.path.as_posix() for test in reading.project.tests}:
        return list(known.tests(tree))
    return list(known.externals(tree))


class _Words:
    def __init__(self, reading: Reading, path: str, source: SourceText, scopes: Scopes) -> None:
        self._reading, self._path, self._source, self._scopes = reading, path, source, scopes

    def tests(self, tree: yaml.Node | None) -> Iterator[Mention]:
        for _, test in _pairs(tree):
            parts = {key.value: value for key, value in _pairs(test)}
            model = self._model(parts.get("model"))
            if model is None:
                continue
            yield self._mention(parts["model"], Symbol("model", model))
            for key, rows in _pairs(parts.get("inputs")):
                parent = self._model(key)
                if parent is not None:
                    yield self._mention(key, Symbol("model", parent))
                    yield from self._columns(rows, Symbol("column", parent))
            outputs = {key.value: value for key, value in _pairs(parts.get("outputs"))}
            yield from self._columns(outputs.get("query"), Symbol("column", model))
            for column, _ in _pairs(outputs.get("columns")):
                yield self._mention(column, Symbol("column", model, column.value.lower()))
            numbers = self._scopes(model)
            for cte, rows in _pairs(outputs.get("ctes")):
                number = numbers.get(cte.value.lower())
                if number is not None:
                    yield self._mention(cte, Symbol("cte", model, cte.value.lower(), number))
                    yield from self._columns(rows, Symbol("inner", model, scope=number))

    def externals(self, tree: yaml.Node | None) -> Iterator[Mention]:
        for entry in tree.value if isinstance(tree, yaml.SequenceNode) else ():
            parts = {key.value: value for key, value in _pairs(entry)}
            model = self._model(parts.get("name"))
            if model is None:
                continue
            yield self._mention(parts["name"], Symbol("model", model), defines=True)
            for part in ("columns", "column_descriptions"):
                for column, _ in _pairs(parts.get(part)):
                    symbol = Symbol("column", model, column.value.lower())
                    yield self._mention(column, symbol, defines=part == "columns")

    def _columns(self, rows: yaml.Node | None, of: Symbol) -> Iterator[Mention]:
        """Find the columns of a table of rows: a list of them, or with keys around it."""
        if isinstance(rows, yaml.MappingNode):
            for key, value in _pairs(rows):
                if key.value == "rows":
                    yield from self._columns(value, of)
                elif key.value == "columns":
                    for column, _ in _pairs(value):
                        yield self._mention(column, of._replace(name=column.value.lower()))
                elif key.value == "query" and isinstance(value, yaml.ScalarNode):
                    yield from self._in_query(value, of)
        elif isinstance(rows, yaml.SequenceNode):
            for row in rows.value:
                for column, _ in _pairs(row):
                    yield self._mention(column, of._replace(name=column.value.lower()))

    def _in_query(self, node: yaml.ScalarNode, of: Symbol) -> Iterator[Mention]:
        """Find words of a query that returns rows for a test: only its author can change them."""
        known = columns_of(self._reading.snapshots, of.model) if of.kind == "column" else None
        start, end = (self._offset(mark) for mark in (node.start_mark, node.end_mark))
        for word in re.compile(r"\w+").finditer(self._source.text, start, end):
            if word[0].lower() in (known or ()):
                span = Span(self._path, *word.span())
                yield Mention(span, of._replace(name=word[0].lower()), by_hand=True)

    def _model(self, node: yaml.Node | None) -> ModelName | None:
        if not isinstance(node, yaml.ScalarNode):
            return None
        try:
            return self._reading.project.names.read(node.value)
        except UsageError:
            return None

    def _mention(self, node: yaml.Node, symbol: Symbol, *, defines: bool = False) -> Mention:
        start, end = (self._offset(mark) for mark in (node.start_mark, node.end_mark))
        if self._source.text[start : start + 1] in ("'", '"'):
            start, end = start + 1, end - 1
        return Mention(Span(self._path, start, end), symbol, defines)

    def _offset(self, mark: Any) -> int:
        place = SourceLocation(self._source.path, mark.line + 1, mark.column + 1)
        return self._source.stretch(place)[0]


def _pairs(node: yaml.Node | None) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
    """Return the keys of a table with their values."""
    if not isinstance(node, yaml.MappingNode):
        return []
    return [(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]


# -- what may stand at the cursor ----------------------------------------------------------


class YamlPlace(NamedTuple):
    """Where in a file of YAML a cursor stands.

    Args:
        keys: Those that lead there, without the places of lists.
        is_value: Whether a value of the last of them is written, and no key below it.
    """

    keys: tuple[str, ...]
    is_value: bool
    word: str


_LINE = re.compile(
    r"(?P<dashes>(?:\s*-\s+)*\s*)(?P<quote>['\"]?)(?P<key>[^'\":{}\[\]#]+)(?P=quote):"
)
_WORD = re.compile(r"[\w.`]*$")


def place_in_yaml(text: str, offset: int) -> YamlPlace:
    """Return where a cursor stands, by the indentation of the lines before it.

    >>> text = "t:\\n  inputs:\\n    a.b:\\n      rows: [{id: 1, na"
    >>> place_in_yaml(text, len(text))
    YamlPlace(keys=('t', 'inputs', 'a.b', 'rows'), is_value=False, word='na')
    """
    lines = text[:offset].split("\n")
    last = lines.pop()
    word = _WORD.search(last)
    assert word is not None
    keys: list[str] = []
    found = _LINE.match(last)
    is_value, indent = False, len(last) - len(last.lstrip(" -"))
    if found is not None:
        keys, indent = [found["key"].strip()], len(found["dashes"])
        rest = last[found.end() : word.start()]
        inside, is_value = _in_flow(rest)
        keys += inside
    for line in reversed(lines):
        above = _LINE.match(line)
        opens = above is not None and not line[above.end() :].strip()
        if above is not None and opens and len(above["dashes"]) < indent:
            keys.insert(0, above["key"].strip())
            indent = len(above["dashes"])
    return YamlPlace(tuple(keys), is_value, word.group())


def _in_flow(text: str) -> tuple[list[str], bool]:
    """Return the keys that lead into brackets that are not closed, and whether a value stands."""
    keys: list[str] = []
    open_: list[int] = []
    is_value = True
    for token in re.findall(r"[{}\[\],]|[\w.`]+\s*:(?=\s|$)", text):
        if token in "{[":
            open_.append(len(keys))
            is_value = token == "["
        elif token in "}]":
            del keys[open_.pop() if open_ else 0 :]
            is_value = True
        elif token == ",":
            del keys[open_[-1] if open_ else 0 :]
            is_value = False
        else:
            keys.append(token[:-1].strip())
            is_value = True
    return keys, is_value


Word = tuple[str, str, str]
"""What may stand somewhere, its kind, and a few words beside it."""


def words_in_yaml(reading: Reading, path: str, offset: int) -> tuple[str, list[Word]]:
    """Return the word at an offset, and what may stand there."""
    text = reading.text(path)
    at = place_in_yaml(text, offset)
    files = find_files(reading.project.settings)
    if path in files.tests:
        return at.word, list(_in_test(reading, text[:offset], at))
    if path in files.externals:
        return at.word, list(_in_externals(at))
    return at.word, []


def _in_test(reading: Reading, before: str, at: YamlPlace) -> Iterator[Word]:
    keys = at.keys[1:]
    model = _tested(reading, before, at.keys[:1])
    if keys == ("model",) and at.is_value:
        for name, one in reading.project.models.items():
            if not one.kind.is_external:
                yield str(name), "model", one.kind.name
    if at.is_value:
        return
    if not keys and at.keys:
        yield from ((key, "property", "of a test") for key in unit_tests.TEST_KEYS)
    elif keys == ("vars",):
        yield from ((key, "property", "time (UTC)") for key in unit_tests.TIMES)
        for variable, value in reading.project.settings.variables.items():
            yield variable, "variable", str(value)
    elif keys == ("inputs",):
        parents = set(model.depends_on if model is not None else reading.project.models)
        yield from ((str(parent), "model", "read by the model") for parent in sorted(parents))
    elif keys == ("outputs",):
        yield from ((key, "property", "of what is expected") for key in unit_tests.OUTPUT_KEYS)
    elif keys[:1] == ("inputs",) and len(keys) == 2:
        yield from ((key, "property", "of a table of rows") for key in unit_tests.TABLE_KEYS)
    elif keys[:1] == ("inputs",) and keys[2] in ("rows", "columns"):
        yield from _columns_of(reading, keys[1])
    elif keys[:2] == ("outputs", "ctes") and len(keys) == 2:
        for cte in ctes(model.query or "") if model is not None else ():
            yield cte.name, "table", "in the query"
    elif keys[:1] == ("outputs",) and keys[1] in ("query", "columns") and model is not None:
        yield from _columns_of(reading, str(model.name))
        if keys == ("outputs", "query"):
            yield from ((key, "property", "of a table of rows") for key in unit_tests.TABLE_KEYS)


def _tested(reading: Reading, before: str, test: tuple[str, ...]) -> Model | None:
    """Return the model that a test is of: its last `model:` before the cursor."""
    own = before.rpartition(f"{''.join(test)}:")[2]
    found = re.findall(r"^\s+model:\s*['\"]?([\w.`]+)", own, re.MULTILINE)
    try:
        return reading.project.models.get(reading.project.names.read(found[-1])) if found else None
    except UsageError:
        return None


def _columns_of(reading: Reading, name: str) -> Iterator[Word]:
    try:
        snapshot = reading.snapshots.get(reading.project.names.read(name))
    except UsageError:
        return
    for column in snapshot.columns if snapshot is not None else ():
        yield column.name, "column", column.type or ""


def _in_externals(at: YamlPlace) -> Iterator[Word]:
    if not at.keys and not at.is_value:
        yield from ((key, "property", "of an external model") for key in external_models.KEYS)
    elif at.is_value and len(at.keys) == 2 and at.keys[0] == "columns":
        yield from ((type_, "value", "type") for type_ in _TYPES)


_TYPES = (
    *("BIGINT", "BINARY", "BOOLEAN", "DATE", "DECIMAL(18, 2)", "DOUBLE", "FLOAT", "INT"),
    *("SMALLINT", "STRING", "TIMESTAMP", "TIMESTAMP_NTZ", "TINYINT"),
)
