"""Reading YAML unit tests, in SQLMesh's format (docs/concepts/tests.md there)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

from vde_dagster.base.instants import is_date, parse_instant, utc
from vde_dagster.base.names import ModelName
from vde_dagster.base.suggestions import suggest
from vde_dagster.errors import UsageError
from vde_dagster.project.macros.expansion import MacroScope
from vde_dagster.project.reading.header_macros import expanded_text
from vde_dagster.project.reading.times import not_a_date
from vde_dagster.project.reading.yaml_lines import KeyPath, YamlDocument, load_yaml
from vde_dagster.project.table_names import TableNames
from vde_dagster.project.unit_values import TestTable, UnitTest

__all__ = ["TestTable", "UnitTest", "load_unit_tests"]

_KEYS = ("model", "description", "inputs", "outputs", "vars")
_TIMES = ("start", "end", "execution_time")
_TABLE_KEYS = ("rows", "columns", "partial", "query", "format", "path", "csv_settings")


def load_unit_tests(
    path: Path, text: str, names: TableNames, scope: MacroScope
) -> tuple[UnitTest, ...]:
    """Read a file of tests.

    `vars.end` is the last day or instant, inclusive as in SQLMesh.

    Args:
        path: The file, relative to the project's root.
        text: Its text.
        names: What names mean.
        scope: Macros and variables that names may have.

    Raises:
        ProjectError: It is not of the format; points at the line.
    """
    document = load_yaml(path, text)
    if document.value is None:
        return ()
    if not isinstance(document.value, dict):
        raise document.error((), "tests are a table of test_name: …", "write test_name:")
    return tuple(
        _Reader(document, names, scope).test(str(name), body)
        for name, body in document.value.items()
        if str(name) not in ("gateway",)
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    document: YamlDocument
    names: TableNames
    scope: MacroScope

    def test(self, name: str, body: Any) -> UnitTest:
        keys: KeyPath = (name,)
        self._table(keys, body, _KEYS, "a test", needed=("model", "outputs"))
        variables = dict(self._mapping((*keys, "vars"), body.get("vars") or {}))
        times = {key: self._time((*keys, "vars", key), variables.pop(key, None)) for key in _TIMES}
        inputs = self._mapping((*keys, "inputs"), body.get("inputs") or {})
        outputs = self._mapping((*keys, "outputs"), body["outputs"])
        for key in outputs:
            if key not in ("query", "ctes", "partial"):
                raise self.document.error(
                    (*keys, "outputs", key),
                    f"unknown key '{key}' of outputs",
                    suggest(key, ("query", "ctes", "partial")),
                )
        partial = bool(outputs.get("partial", False))
        ctes = self._mapping((*keys, "outputs", "ctes"), outputs.get("ctes") or {})
        expected = None
        if "query" in outputs:
            expected = self._rows((*keys, "outputs", "query"), outputs["query"], partial)
        elif not ctes:
            raise self.document.error((*keys, "outputs"), "the test expects nothing", "add query:")
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
                (cte, self._rows((*keys, "outputs", "ctes", cte), rows, partial))
                for cte, rows in ctes.items()
            ),
            start=times["start"],
            end=_exclusive(body, times["end"]),
            execution_time=times["execution_time"],
            variables=tuple(variables.items()),
            description=body.get("description"),
        )

    def _rows(self, keys: KeyPath, body: Any, partial: bool = False) -> TestTable:
        if isinstance(body, list):
            body = {"rows": body}
        self._table(keys, body, _TABLE_KEYS, "a table of rows")
        for key in ("format", "path"):
            if key in body:
                raise self.document.error(
                    (*keys, key), "rows in other files are not supported yet", "write rows:"
                )
        types = self._mapping((*keys, "columns"), body.get("columns") or {})
        rows = body.get("rows")
        if isinstance(rows, dict):
            rows = self._transposed(keys, rows)
        if rows is None and "query" not in body:
            rows = []
        if rows is not None and not isinstance(rows, list):
            raise self.document.error((*keys, "rows"), "'rows' is a list", "write - column: value")
        names: dict[str, None] = dict.fromkeys(str(name) for name in types)
        for index, row in enumerate(rows or ()):
            self._mapping((*keys, "rows", index), row)
            names.update(dict.fromkeys(str(name) for name in row))
        return TestTable(
            columns=tuple(names),
            rows=tuple(tuple(row.get(name) for name in names) for row in rows or ()),
            types=tuple((str(name), str(type_)) for name, type_ in types.items()),
            partial=bool(body.get("partial", partial)),
            query=body.get("query"),
        )

    def _transposed(self, keys: KeyPath, columns: Mapping[str, Any]) -> list[dict[str, Any]]:
        lengths = {len(values) for values in columns.values() if isinstance(values, list)}
        if len(lengths) != 1:
            raise self.document.error((*keys, "rows"), "the columns differ in length")
        return [
            {name: values[index] for name, values in columns.items()}
            for index in range(lengths.pop())
        ]

    def _table(
        self,
        keys: KeyPath,
        body: Any,
        known: Iterable[str],
        what: str,
        needed: tuple[str, ...] = (),
    ) -> None:
        self._mapping(keys, body)
        known = tuple(known)
        for key in body:
            if key not in known:
                raise self.document.error(
                    (*keys, str(key)), f"unknown key '{key}' of {what}", suggest(str(key), known)
                )
        for key in needed:
            if key not in body:
                raise self.document.error(keys, f"{what} needs '{key}'", f"add {key}:")

    def _mapping(self, keys: KeyPath, body: Any) -> Mapping[str, Any]:
        if not isinstance(body, dict):
            raise self.document.error(keys, f"'{keys[-1]}' has to be a table of key: value")
        return body

    def _name(self, keys: KeyPath, text: Any) -> ModelName:
        try:
            written = expanded_text(str(text), self.scope, self.document.location(keys))
            return self.names.read(written)
        except UsageError as error:
            raise self.document.error(keys, error.message, error.hint) from None

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


def _exclusive(body: Mapping[str, Any], end: datetime | None) -> datetime | None:
    """Turn SQLMesh's inclusive end into an exclusive one: a day ends at its midnight."""
    if end is None:
        return None
    given = (body.get("vars") or {}).get("end")
    is_day = isinstance(given, date) and not isinstance(given, datetime)
    if is_day or (isinstance(given, str) and is_date(given)):
        return end + timedelta(days=1)
    return end + timedelta(microseconds=1)
