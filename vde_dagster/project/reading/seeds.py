"""Seeds: CSV files read as text, checked against declared types, hashed by column."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.base.hashing import content_digest
from vde_dagster.base.texts import suggest
from vde_dagster.errors import ProjectError, SourceLocation, UsageError, shortened
from vde_dagster.project.files import project_file_path
from vde_dagster.project.kinds import Seed
from vde_dagster.project.model import Column, Model
from vde_dagster.project.settings import Settings

if TYPE_CHECKING:
    import pyarrow


_PATTERNS: tuple[tuple[str, str], ...] = (
    ("BOOLEAN", r"(?i:true|false)"),
    ("BIGINT", r"[+-]?\d{1,18}"),
    ("DOUBLE", r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?"),
    ("DATE", r"\d{4}-\d{2}-\d{2}"),
    ("TIMESTAMP", r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?"),
)


def load_seed(settings: Settings, model: Model, model_path: Path) -> Model:
    """Complete a seed model from its CSV file: columns, number of rows, and hashes.

    Columns are hashed by values, so quoting and line ends do not matter. Whitespace around a value
    matters only in text columns. The path in `model.kind` is as written in the model's file.
    """
    assert isinstance(model.kind, Seed)
    path = _seed_path(settings, model.kind.path, model_path, model.location.line)
    content = (settings.root / path).read_bytes()
    location = SourceLocation(Path(path))
    table = read_csv(content, model.kind, location)
    _check_names(model, table, location)
    columns = _seed_columns(model, table, location)
    _check_values(model, table, columns, content, location.path)
    kind = dataclasses.replace(
        model.kind,
        path=path,
        content_hash=hashlib.sha256(content).hexdigest(),
        row_count=table.num_rows,
        # Hash Python's spelling of the values, to keep the hashes of existing seeds.
        rows_hash=content_digest(repr(("rows", str(table.num_rows))).encode()),
        column_hashes=_column_hashes(table, columns),
    )
    return dataclasses.replace(model, kind=kind, columns=columns)


def read_seed(root: Path, model: Model) -> pyarrow.Table:
    """Read a seed's CSV file as an Arrow table of texts, one column per column of the model.

    Values of columns that are not text lose surrounding whitespace.

    Raises:
        UsageError: The file, or a setting for it, has changed since the plan was created; or
            the file is outside the project.
    """
    import pyarrow as pa

    assert isinstance(model.kind, Seed)
    path, location = project_file_path(root, model.kind.path), SourceLocation(Path(model.kind.path))
    content = path.read_bytes() if path.is_file() else b""
    what = f"{location.path} has changed since the plan was created"
    if hashlib.sha256(content).hexdigest() != model.kind.content_hash:
        raise UsageError(what, hint="plan again: vde plan ENV", location=location)
    table = read_csv(content, model.kind, location)
    planned = model.kind.column_hashes
    if planned and _column_hashes(table, model.columns) != planned:
        what = f"the settings for {location.path} have changed since the plan was created"
        raise UsageError(what, hint="plan again: vde plan ENV", location=location)
    arrays = [_trim_values(table[column.name], column.type) for column in model.columns]
    return pa.table(arrays, names=[column.name for column in model.columns])


def _seed_path(settings: Settings, written: str, model_path: Path, line: int | None) -> str:
    """Return the path of a seed's CSV file, relative to the root, with forward slashes.

    `$root/x.csv` is relative to the project; other paths are relative to the model's file, the
    seeds folder or the project, whichever exists first.
    """
    root = settings.root
    plain = written.removeprefix("$root/")
    folders = [Path()]
    if plain == written:
        seeds = Path(settings.seeds_dir)
        folders = [model_path.parent, seeds, settings.models_dir / seeds, Path()]
    for candidate in (folder / plain for folder in folders):
        # As a string first: pathlib raises for names longer than a file name may be.
        if os.path.isfile(root / candidate):
            target = (root / candidate).resolve()
            if target.is_relative_to(root.resolve()):
                return target.relative_to(root.resolve()).as_posix()
            raise ProjectError(
                f"the seed's file '{written}' is outside the project",
                hint=f"move it to {settings.seeds_dir}/",
                location=SourceLocation(model_path, line),
            )
    near = {p.name for p in root.glob(f"**/{settings.seeds_dir}/*.csv")}
    raise ProjectError(
        f"the seed's file '{written}' does not exist",
        hint=suggest(Path(plain).name, near, "CSV files in the project"),
        location=SourceLocation(model_path, line),
    )


def _check_names(model: Model, table: pyarrow.Table, location: SourceLocation) -> None:
    assert isinstance(model.kind, Seed)
    known = {name.lower() for name in table.column_names}
    for column, _ in model.kind.column_null_values:
        if column.lower() not in known:
            raise ProjectError(
                f"column '{column}' of na_values is not in {location.path}",
                hint=suggest(column, table.column_names, "columns of the file"),
                location=model.location,
            )


def _seed_columns(
    model: Model, table: pyarrow.Table, location: SourceLocation
) -> tuple[Column, ...]:
    by_name = {name.lower(): name for name in table.column_names}
    if model.columns:
        for column in model.columns:
            if column.name.lower() not in by_name:
                raise ProjectError(
                    f"column '{column.name}' of {model.name} is not in {location.path}",
                    hint=suggest(column.name, table.column_names, "columns of the file"),
                    location=model.location,
                )
        return tuple(
            dataclasses.replace(
                column,
                name=by_name[column.name.lower()],
                type=column.type or _infer_type(table[by_name[column.name.lower()]]),
            )
            for column in model.columns
        )
    texts = {name.lower(): text for name, text in model.column_descriptions.items()}
    return tuple(
        Column(name, _infer_type(table[name]), texts.get(name.lower()))
        for name in table.column_names
    )


def _infer_type(values: pyarrow.ChunkedArray) -> str:
    """Return the narrowest Spark type for all values; leading zeros or no values mean text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    present = pc.utf8_trim_whitespace(values.drop_null())
    if len(present) == 0:
        return "STRING"

    def all_match(pattern: str) -> bool:
        return bool(pc.all(pc.match_substring_regex(present, f"^(?:{pattern})$")).as_py())

    for type_, pattern in _PATTERNS:
        if not all_match(pattern):
            continue
        if type_ in ("BIGINT", "DOUBLE"):
            if pc.any(pc.match_substring_regex(present, r"^[+-]?0\d")).as_py():
                return "STRING"
            if type_ == "BIGINT":
                return "INT" if all_match(r"[+-]?\d{1,9}") else "BIGINT"
        if type_ in ("DATE", "TIMESTAMP"):
            try:
                present.cast(pa.timestamp("us"))
            except pa.ArrowException:
                return "STRING"
        return type_
    return "STRING"


def _trim_values(values: pyarrow.ChunkedArray, type_: str | None) -> pyarrow.ChunkedArray:
    import pyarrow.compute as pc

    if type_ is None or type_.upper().startswith(("STRING", "VARCHAR", "CHAR", "BINARY")):
        return values
    trimmed = pc.utf8_trim_whitespace(values)
    return pc.if_else(pc.equal(trimmed, ""), None, trimmed)


def _column_hashes(table: pyarrow.Table, columns: Sequence[Column]) -> tuple[tuple[str, str], ...]:
    return tuple((one.name, _column_hash(table[one.name], one.type)) for one in columns)


def _column_hash(values: pyarrow.ChunkedArray, type_: str | None) -> str:
    """Hash all values' lengths (-1 for NULL), and then all their bytes."""
    import numpy as np
    import pyarrow.compute as pc

    normal = _trim_values(values, type_)
    state = hashlib.blake2b(digest_size=16)
    for chunk in normal.chunks:
        lengths = pc.fill_null(pc.binary_length(chunk), -1)
        state.update(np.asarray(lengths, dtype="<i4").tobytes())
    state.update(b"|")
    for chunk in normal.chunks:
        state.update("".join(pc.fill_null(chunk, "").to_pylist()).encode())
    return state.hexdigest()


_BLANK_END = re.compile(r"(?<=[\r\n]) [ \r\n]*\Z")
"""Matches blank lines at the end, which are not rows."""
_LINE_END_MARKS = {"\n": "\ue000", "\r": "\ue001"}
"""Placeholders for line ends in values, if another character ends the rows."""
_ROWS = 1 << 16
"""Maximum number of rows that are kept as Python texts at a time."""
_LONGEST_FIELD = (1 << 31) - 1
_LONGEST_NAME = 1_000
_FIRST = "the first line must name the columns"


def read_csv(content: bytes, kind: Seed, location: SourceLocation) -> pyarrow.Table:
    """Read a CSV file as an Arrow table of texts, with NULL for missing values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = (cells for _, cells in _numbered_rows(content, kind, location))
    names = _read_names(next(rows, []), location)
    chunks: list[list[pyarrow.Array]] = [[] for _ in names]
    while batch := list(islice(rows, _ROWS)):
        for parts, column in zip(chunks, zip(*batch, strict=True), strict=True):
            parts.append(pa.array(column, pa.string()))
    columns = []
    for name, parts in zip(names, chunks, strict=True):
        values = pa.chunked_array(parts, pa.string())
        nulls = pa.array(dict.fromkeys(kind.null_values_in(name)), pa.string())
        columns.append(pc.if_else(pc.is_in(values, value_set=nulls), None, values))
    return pa.table(columns, names=names)


def _numbered_rows(
    content: bytes, kind: Seed, location: SourceLocation
) -> Iterator[tuple[int | None, list[str]]]:
    if not content.strip():
        raise ProjectError("the CSV file is empty", hint=_FIRST, location=location)
    end = kind.lineterminator
    text = _decode(content, kind, location)
    if end:
        for sign, aside in _LINE_END_MARKS.items():
            text = text.replace(sign, aside)
        text = text.replace(end, "\n")
    elif kind.delimiter != " ":
        text = _BLANK_END.sub("", text)
    # Without translation of line ends: a carriage return alone also ends a line.
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=kind.delimiter,
        quotechar=kind.quotechar,
        doublequote=kind.doublequote,
        escapechar=kind.escapechar or None,
        skipinitialspace=kind.skipinitialspace,
    )
    width = ended = 0
    csv.field_size_limit(_LONGEST_FIELD)
    try:
        for cells in reader:
            if not width:
                width = len(cells)
            elif cells and len(cells) != width:
                raise csv.Error(f"{width} fields were expected, {len(cells)} found")
            if end:
                cells = [_restore_line_ends(cell, end) for cell in cells]
            if cells or not ended:
                yield None if end else ended + 1, cells
            ended = reader.line_num
    except csv.Error as error:
        where = SourceLocation(location.path, None if end else reader.line_num or 1)
        if not width:
            what = f"the first line of the CSV file is invalid: {error}"
            raise ProjectError(what, hint=_FIRST, location=where) from error
        what = f"the CSV file is malformed: {error}"
        hint = "every line must have as many fields as the first"
        raise ProjectError(what, hint=hint, location=where) from error


def _restore_line_ends(cell: str, end: str) -> str:
    cell = cell.replace("\n", end)
    for sign, aside in _LINE_END_MARKS.items():
        cell = cell.replace(aside, sign)
    return cell


def _decode(content: bytes, kind: Seed, location: SourceLocation) -> str:
    encoding = kind.encoding or "utf-8"
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ProjectError(
            f"the CSV file is not {encoding.upper()}",
            hint="save it in this encoding, or set csv_settings (encoding = 'latin-1')",
            location=SourceLocation(location.path, line),
        ) from None


def _read_names(cells: Sequence[str], location: SourceLocation) -> list[str]:
    names = [cell.strip() for cell in cells]
    lowered = [name.lower() for name in names]
    problem = None if names else "the first line of the CSV file is blank"
    for index, name in enumerate(names):
        if not name:
            problem = "a column has no name"
        elif len(name) > _LONGEST_NAME:
            problem = (
                "the first line of the CSV file is invalid: "
                f"'{shortened(name, _MOST_CHARS)}' is not a name"
            )
        elif lowered.index(name.lower()) < index:
            problem = f"column '{name}' is named twice"
    if problem is not None:
        hint = "the first line must name every column once" if names else _FIRST
        raise ProjectError(problem, hint=hint, location=SourceLocation(location.path, 1))
    return names


_MOST_CHARS = 80
"""Maximum length of an invalid value in a message; a longer value is cut."""
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_DAY = r"[+-]?\d{4,7}(?:-(?:0?[1-9]|1[0-2])(?:-(?:0?[1-9]|[12]\d|3[01])(?:[ T].*)?)?)?"
_INTEGER_BITS = {
    "TINYINT": 7,
    "BYTE": 7,
    "SMALLINT": 15,
    "SHORT": 15,
    "INT": 31,
    "INTEGER": 31,
    "BIGINT": 63,
    "LONG": 63,
}
_TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_TYPE_PATTERNS = {
    **dict.fromkeys(_INTEGER_BITS, r"[+-]?\d+"),
    **dict.fromkeys(
        ("FLOAT", "REAL", "DOUBLE"), rf"(?:{_NUMBER}[dDfF]?|[+-]?(?i:nan|inf|infinity))"
    ),
    **dict.fromkeys(("DECIMAL", "DEC", "NUMERIC"), _NUMBER),
    "BOOLEAN": r"(?i:t|true|y|yes|1|f|false|n|no|0)",
    "DATE": _DAY,
    # A time alone is a time of today.
    **dict.fromkeys(_TIMES, rf"(?:{_DAY}|T?\d{{1,2}}:.*)"),
}
"""Patterns by type: each matches every value that Spark can cast to the type, and maybe others.
Whitespace around a value must be removed first.
"""
_DIGITS = 20
"""More digits than any integer type of Spark has."""
_DECIMAL = re.compile(r"(?i:DECIMAL|DEC|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_PLAIN_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def _check_values(
    model: Model, table: pyarrow.Table, columns: Sequence[Column], content: bytes, path: Path
) -> None:
    assert isinstance(model.kind, Seed)
    declared = {column.name.lower() for column in model.columns if column.type}
    mistakes = []
    for column in columns:
        values = _trim_values(table[column.name], column.type)
        wrong = (
            _find_misfits(values, column.type or "") if column.name.lower() in declared else None
        )
        if wrong is None:
            continue
        row, count = wrong
        rows = _numbered_rows(content, model.kind, SourceLocation(path))
        line, _ = next(islice(rows, row + 1, None))  # The first row has the names.
        value = shortened(str(values[row].as_py()), _MOST_CHARS)
        more = f" ({count:,} values are invalid)" if count > 1 else ""
        message = (
            f"'{value}' in column '{column.name}' is not a valid {column.type}, the type that "
            f"the model declares{more}"
        )
        hint = "correct the value, or declare the column as STRING and cast it in a query"
        mistakes.append(ProjectError(message, hint=hint, location=SourceLocation(path, line)))
    if mistakes:
        raise ProjectError.combine(mistakes)


def _find_misfits(values: pyarrow.ChunkedArray, type_: str) -> tuple[int, int] | None:
    """Return the first row whose value does not fit the type, and the number of such rows."""
    import pyarrow.compute as pc

    kind = re.split(r"[\s(<]", type_.strip().upper(), maxsplit=1)[0]
    form = _TYPE_PATTERNS.get(kind)
    if form is None:
        return None
    fits = pc.fill_null(pc.match_substring_regex(values, f"(?s)^(?:{form})$"), True)
    fits = pc.and_(fits, _in_range(values, fits, kind, type_))
    count = len(fits) - (pc.sum(fits).as_py() or 0)
    return (pc.index(fits, False).as_py(), count) if count else None


def _in_range(values: Any, fits: Any, kind: str, type_: str) -> Any:
    """Return which values are in the type's range. Values that do not fit the type count, too."""
    import pyarrow as pa

    check = _range_check(kind, type_)
    if check is None:
        return pa.array([True] * len(values), pa.bool_())
    known = cache(check)
    pairs = zip(values.to_pylist(), fits.to_pylist(), strict=True)
    found = [value is None or not formed or known(value) for value, formed in pairs]
    return pa.array(found, pa.bool_())


def _range_check(kind: str, type_: str) -> Callable[[str], bool] | None:
    if kind in ("DATE", *_TIMES):
        return _is_possible_day
    if kind in _INTEGER_BITS:
        limit = 1 << _INTEGER_BITS[kind]
        # Python refuses to read numbers of thousands of digits.
        return lambda value: _whole_digits(value) < _DIGITS and -limit <= int(value) < limit
    sized = _DECIMAL.fullmatch(type_.strip())
    if sized is not None:
        whole = int(sized[1]) - int(sized[2] or 0)
        # Rounding up may need one more digit, which Spark checks.
        return lambda value: "e" in value.lower() or _whole_digits(value) <= whole
    return None


def _is_possible_day(value: str) -> bool:
    day = value[:10]
    if not _PLAIN_DAY.fullmatch(day):
        return True
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return True


def _whole_digits(value: str) -> int:
    return len(value.lstrip("+-").partition(".")[0].lstrip("0"))
