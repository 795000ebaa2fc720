"""Reader of YAML unit tests in SQLMesh's format (docs/concepts/tests.md there)."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import suggest
from vde_dagster.base.times import is_date, parse_instant, utc
from vde_dagster.errors import ProjectError, UsageError, placed
from vde_dagster.project.macros.scope import MacroScope
from vde_dagster.project.model import TestTable, UnitTest
from vde_dagster.project.properties.header_macros import expanded_text
from vde_dagster.project.properties.times import not_a_date
from vde_dagster.project.table_names import TableNames
from vde_dagster.project.yaml_text import KeyPath, YamlDocument, load_rendered_yaml, load_yaml
from vde_dagster.sql.expressions import in_spark
from vde_dagster.sql.other_dialects import SPARKS

TEST_KEYS = ("model", "description", "inputs", "outputs", "vars", "gateway", "schema")
TIMES = ("start", "end", "execution_time")
TABLE_KEYS = ("rows", "columns", "partial", "query", "format", "path", "csv_settings")


def load_unit_tests(
    path: Path,
    text: str,
    names: TableNames,
    scope: MacroScope,
    read_file: Callable[[str], str],
    asked: set[str] | None = None,
) -> tuple[UnitTest, ...]:
    """Read a YAML file of unit tests.

    `vars.end` is the last day or instant, inclusive as in SQLMesh. A test's `gateway` and `schema`
    are ignored.

    Args:
        scope: Macros and variables that the file may use, and the dialect of its queries.
        read_file: Returns the text of a file with rows, by its path from the project's root.
        asked: Receives the environment variables that Jinja in the file uses.
    """

    def variable(name: str, default: Any = None) -> Any:
        found = scope.settings.get(name.lower(), default)
        if found is None:
            raise LookupError(f"unknown variable '{name}'")
        return found

    hint = "use var('name', default), env_var('NAME', default) or user()"
    asked = set() if asked is None else asked
    document = load_rendered_yaml(path, text, variable, asked, hint)
    if document.value is None or _is_rows(document.value):
        return ()
    if not isinstance(document.value, dict):
        raise document.error((), "tests must be a table of test_name: …", "write test_name:")
    return tuple(
        _Reader(document, names, scope, read_file).test(str(name), body)
        for name, body in document.value.items()
        if str(name) != "gateway"
    )


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, dict) and set(value) == {"rows"})


OUTPUT_KEYS = ("query", "ctes", "partial", "columns")


@dataclass(frozen=True, slots=True)
class _Reader:
    document: YamlDocument
    names: TableNames
    scope: MacroScope
    read_file: Callable[[str], str]

    def test(self, name: str, body: Any) -> UnitTest:
        keys: KeyPath = (name,)
        self._table(keys, body, TEST_KEYS, "a test", needed=("model", "outputs"))
        variables = dict(self._part(keys, body, "vars"))
        times = {key: self._time((*keys, "vars", key), variables.pop(key, None)) for key in TIMES}
        inputs = self._part(keys, body, "inputs")
        below = (*keys, "outputs")
        outputs = self._table(below, body["outputs"], OUTPUT_KEYS, "outputs")
        partial = bool(outputs.get("partial", False))
        ctes = self._part(below, outputs, "ctes")
        expected = None
        if "query" in outputs:
            expected = self._rows((*below, "query"), outputs["query"], partial)
            types = self._part(below, outputs, "columns")
            # Types in the rows take precedence.
            told = {str(name): str(type_) for name, type_ in types.items()}
            known = {name: type_ for name, type_ in told.items() if name in expected.columns}
            expected = replace(expected, types=tuple({**known, **dict(expected.types)}.items()))
        elif not ctes:
            raise self.document.error(below, "the test has no expected rows", "add query:")
        return UnitTest(
            name=name,
            model=self._name((*keys, "model"), body["model"]),
            location=self.document.location(keys),
            inputs=tuple(
                (
                    self._name((*keys, "inputs", parent), parent),
                    self._rows((*keys, "inputs", parent), rows),
                )
                for parent, rows in inputs.items()
            ),
            expected=expected,
            ctes=tuple(
                (cte, self._rows((*below, "ctes", cte), rows, partial))
                for cte, rows in ctes.items()
            ),
            start=times["start"],
            end=_exclusive_end(body, times["end"]),
            execution_time=times["execution_time"],
            variables=tuple(variables.items()),
            description=body.get("description"),
        )

    def _rows(self, keys: KeyPath, body: Any, partial: bool = False) -> TestTable:
        if isinstance(body, list):
            body = {"rows": body}
        self._table(keys, body, TABLE_KEYS, "a table of rows")
        types = self._part(keys, body, "columns")
        rows = self._given_rows(keys, body)
        if isinstance(rows, dict):
            lengths = {len(one) if isinstance(one, list) else -1 for one in rows.values()}
            if len(lengths) != 1 or lengths == {-1}:
                raise self.document.error((*keys, "rows"), "columns must be lists of equal length")
            rows = [
                {name: values[index] for name, values in rows.items()}
                for index in range(lengths.pop())
            ]
        if rows is None and "query" not in body:
            rows = []
        if rows is not None and not isinstance(rows, list):
            raise self.document.error(
                (*keys, "rows"), "'rows' must be a list", "write - column: value"
            )
        names: dict[str, None] = dict.fromkeys(str(name) for name in types)
        for index, row in enumerate(rows or ()):
            self._mapping((*keys, "rows", index), row)
            names.update(dict.fromkeys(str(name) for name in row))
        return TestTable(
            columns=tuple(names),
            rows=tuple(tuple(row.get(name) for name in names) for row in rows or ()),
            types=tuple((str(name), str(type_)) for name, type_ in types.items()),
            partial=bool(body.get("partial", partial)),
            query=self._query(keys, body.get("query")),
            dialect=self.scope.dialect,
            dialect_trust=tuple(sorted(self.scope.dialect_trust)),
        )

    def _query(self, keys: KeyPath, text: Any) -> Any:
        if self.scope.dialect in SPARKS or not isinstance(text, str):
            return text
        try:
            return in_spark(text, self.scope.dialect, self.scope.dialect_trust)
        except ValueError as error:
            hint = f"write it in the project's dialect, {self.scope.dialect}"
            message = f"the query of rows: {error}"
            raise self.document.error((*keys, "query"), message, hint) from error

    def _given_rows(self, keys: KeyPath, body: Mapping[str, Any]) -> Any:
        form, path, rows = body.get("format", "yaml"), body.get("path"), body.get("rows")
        if form not in ("yaml", "csv"):
            message = f"unknown format of rows '{form}'"
            raise self.document.error((*keys, "format"), message, "write yaml or csv")
        if path is not None and (rows is not None or "query" in body):
            message = "'path' cannot be combined with rows: or query:"
            raise self.document.error((*keys, "path"), message, "remove rows: and query:")
        try:
            text = rows if path is None else self.read_file(str(path))
        except OSError as error:
            message = f"the file {path} cannot be read: {error.strerror or error}"
            hint = "write its path relative to the project's folder"
            raise self.document.error((*keys, "path"), message, hint) from None
        place = (*keys, "rows" if path is None else "path")
        if form == "csv" and text is not None:
            settings = self._part(keys, body, "csv_settings")
            with placed(self.document.location(place)):
                return _csv_rows(str(text), settings)
        if path is None:
            return rows
        try:
            found = load_yaml(Path(str(path)), str(text)).value
        except ProjectError as error:
            raise self.document.error(place, f"{path}: {error.message}", error.hint) from None
        return found.get("rows") if isinstance(found, dict) else found

    def _table(
        self,
        keys: KeyPath,
        body: Any,
        known: tuple[str, ...],
        what: str,
        needed: tuple[str, ...] = (),
    ) -> Mapping[str, Any]:
        for key in self._mapping(keys, body):
            if key not in known:
                raise self.document.error(
                    (*keys, key), f"unknown key '{key}' of {what}", suggest(str(key), known)
                )
        for key in needed:
            if key not in body:
                raise self.document.error(keys, f"{what} requires '{key}'", f"add {key}:")
        return self._mapping(keys, body)

    def _part(self, keys: KeyPath, body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        return self._mapping((*keys, key), body.get(key) or {})

    def _mapping(self, keys: KeyPath, body: Any) -> Mapping[str, Any]:
        if not isinstance(body, dict):
            raise self.document.error(keys, f"'{keys[-1]}' must be a table of key: value")
        return body

    def _name(self, keys: KeyPath, text: Any) -> ModelName:
        place = self.document.location(keys)
        with placed(place):
            return self.names.read(expanded_text(str(text), self.scope, place))

    def _time(self, keys: KeyPath, value: Any) -> datetime | None:
        if value is None:
            return None
        if isinstance(value, datetime):
            return utc(value)
        if isinstance(value, date):
            return datetime.combine(value, time(), tzinfo=timezone.utc)
        try:
            return parse_instant(str(value))
        except ValueError:
            raise self.document.error(keys, *not_a_date(str(value), relative=False)) from None


def _exclusive_end(body: Mapping[str, Any], end: datetime | None) -> datetime | None:
    if end is None:
        return None
    given = (body.get("vars") or {}).get("end")
    is_day = isinstance(given, date) and not isinstance(given, datetime)
    if is_day or (isinstance(given, str) and is_date(given)):
        return end + timedelta(days=1)
    return end + timedelta(microseconds=1)


_CSV_SETTINGS = (
    *("sep", "delimiter", "quotechar", "escapechar", "doublequote", "skipinitialspace"),
    *("na_values", "keep_default_na", "skip_blank_lines"),
)
"""Settings for reading CSV that SQLMesh passes to pandas."""


def _csv_rows(text: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Read CSV with a header line as pandas does: numbers, booleans and texts by column.

    `settings` are the test's `csv_settings`, with pandas' names.

    Raises:
        UsageError: A setting is unknown, or the CSV is invalid.
    """
    import pandas as pd

    for name in settings:
        if name not in _CSV_SETTINGS:
            hint = suggest(name, _CSV_SETTINGS)
            raise UsageError(f"unknown CSV setting '{name}'", hint=hint)
    form = {**settings, "index_col": False, "dtype_backend": "numpy_nullable"}
    try:
        with warnings.catch_warnings():
            # In lines with more values than the first, pandas would drop these values.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(io.StringIO(text), **form)
    except (ValueError, TypeError, pd.errors.ParserWarning) as error:
        raise UsageError(f"the CSV is invalid: {str(error).strip()}") from None
    plain = frame.astype(object).where(frame.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in plain.to_dict("records")]
