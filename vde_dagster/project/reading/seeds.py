"""Seeds: CSV files of the project, hashed by value, column by column."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.base.hashing import content_digest
from vde_dagster.base.suggestions import suggest
from vde_dagster.errors import ProjectError, SourceLocation, UsageError
from vde_dagster.project.kinds import Seed
from vde_dagster.project.model import Column, Model
from vde_dagster.project.reading.csv_text import line_of, read_csv
from vde_dagster.project.reading.seed_values import check_values
from vde_dagster.project.settings import Settings

if TYPE_CHECKING:
    import pyarrow

_INT = r"[+-]?\d{1,18}"
_PATTERNS: tuple[tuple[str, str], ...] = (
    ("BOOLEAN", r"(?i:true|false)"),
    ("BIGINT", _INT),
    ("DOUBLE", r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?"),
    ("DATE", r"\d{4}-\d{2}-\d{2}"),
    ("TIMESTAMP", r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?"),
)


def load_seed(settings: Settings, model: Model, model_path: Path) -> Model:
    """Fill in a seed's hashes, row count and columns from its CSV file.

    Hashes are over values, not bytes: quoting, line ends and, outside text columns, blanks
    around a value change nothing.

    Args:
        settings: The project's settings.
        model: The seed model, its kind's path as written in the model file.
        model_path: The model's file, relative to the root.

    Raises:
        ProjectError: The file is missing or malformed, or a declared column is not in it.
    """
    assert isinstance(model.kind, Seed)
    path = resolve_seed_path(settings, model.kind.path, model_path, model.location.line)
    content = (settings.root / path).read_bytes()
    location = SourceLocation(Path(path))
    table = read_csv(content, model.kind, location)
    _check_names(model, table, location)
    columns = _columns(model, table, location)
    _check_values(model, table, columns, content, location)
    kind = dataclasses.replace(
        model.kind,
        path=path,
        content_hash=hashlib.sha256(content).hexdigest(),
        row_count=table.num_rows,
        rows_hash=_digest("rows", str(table.num_rows)),
        column_hashes=tuple(
            (column.name, _column_hash(table[column.name], column.type)) for column in columns
        ),
    )
    return dataclasses.replace(model, kind=kind, columns=columns)


def read_seed(root: Path, model: Model) -> pyarrow.Table:
    """Read a seed's rows as text, one string column per column of the model, NULLs as NULL.

    Values of columns that are not text have no blanks around them, so that a cast to the
    column's type reads them.

    Args:
        root: The project's folder.
        model: A model of kind SEED.

    Raises:
        UsageError: The file is not the one that was planned.
    """
    assert isinstance(model.kind, Seed)
    path = root / model.kind.path
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != model.kind.content_hash:
        raise UsageError(
            f"{model.kind.path} has changed since the plan was made",
            hint="plan again",
            location=SourceLocation(Path(model.kind.path)),
        )
    import pyarrow as pa

    table = read_csv(content, model.kind, SourceLocation(Path(model.kind.path)))
    arrays = [_normalised(table[column.name], column.type) for column in model.columns]
    return pa.table(arrays, names=[column.name for column in model.columns])


def resolve_seed_path(
    settings: Settings, written: str, model_path: Path, line: int | None = None
) -> str:
    """Find a seed's CSV file; return it relative to the root, with forward slashes.

    `$root/x.csv` is relative to the project, other paths to the model's file, the seeds folder or
    the project, whichever is there first.

    Raises:
        ProjectError: There is no such file.
    """
    root = settings.root
    plain = written.removeprefix("$root/")
    models = Path(settings.models_dir)
    candidates = [Path(plain)]
    if plain == written:
        candidates = [
            model_path.parent / plain,
            Path(settings.seeds_dir) / plain,
            models / settings.seeds_dir / plain,
            Path(plain),
        ]
    for candidate in candidates:
        # By a string first: pathlib raises for a name that is longer than any file's.
        if os.path.isfile(root / candidate):
            target = (root / candidate).resolve()
            try:
                return target.relative_to(root).as_posix()
            except ValueError:
                raise ProjectError(
                    f"the seed's file '{written}' lies outside the project",
                    hint=f"move it to {settings.seeds_dir}/",
                    location=SourceLocation(model_path, line),
                ) from None
    near = {p.name for p in root.glob(f"**/{settings.seeds_dir}/*.csv")}
    raise ProjectError(
        f"the seed's file '{written}' is not there",
        hint=suggest(Path(plain).name, near, "CSV files in the project"),
        location=SourceLocation(model_path, line),
    )


def _check_names(model: Model, table: pyarrow.Table, location: SourceLocation) -> None:
    """Check that `na_values` by column names columns of the file."""
    assert isinstance(model.kind, Seed)
    known = {name.lower() for name in table.column_names}
    for column, _ in model.kind.column_null_values:
        if column.lower() not in known:
            raise ProjectError(
                f"column '{column}' of na_values is not in {location.path}",
                hint=suggest(column, table.column_names, "columns of the file"),
                location=model.location,
            )


def _check_values(
    model: Model,
    table: pyarrow.Table,
    columns: Sequence[Column],
    content: bytes,
    location: SourceLocation,
) -> None:
    """Check the columns whose types are declared; inferred ones hold their values."""
    import pyarrow as pa

    assert isinstance(model.kind, Seed)
    kind = model.kind
    typed = {column.name.lower() for column in model.columns if column.type}
    declared = [column for column in columns if column.name.lower() in typed]
    if declared:
        arrays = [_normalised(table[column.name], column.type) for column in declared]
        values = pa.table(arrays, names=[column.name for column in declared])
        check_values(values, declared, location, lambda row: line_of(content, kind, row))


def _columns(model: Model, table: pyarrow.Table, location: SourceLocation) -> tuple[Column, ...]:
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
                type=column.type or infer_type(table[by_name[column.name.lower()]]),
            )
            for column in model.columns
        )
    texts = {name.lower(): text for name, text in model.column_descriptions.items()}
    return tuple(
        Column(name, infer_type(table[name]), texts.get(name.lower()))
        for name in table.column_names
    )


def infer_type(values: pyarrow.ChunkedArray) -> str:
    """Return the narrowest Spark type that every value of a column has the form of.

    Numbers with leading zeros are text; a column without values is text.
    """
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
        if type_ in ("DATE", "TIMESTAMP") and not _are_dates(present):
            return "STRING"
        return type_
    return "STRING"


def _are_dates(values: Any) -> bool:
    import pyarrow as pa

    try:
        values.cast(pa.timestamp("us"))
    except pa.ArrowException:
        return False
    return True


def _normalised(values: pyarrow.ChunkedArray, type_: str | None) -> pyarrow.ChunkedArray:
    import pyarrow.compute as pc

    if type_ is None or type_.upper().startswith(("STRING", "VARCHAR", "CHAR", "BINARY")):
        return values
    trimmed = pc.utf8_trim_whitespace(values)
    return pc.if_else(pc.equal(trimmed, ""), None, trimmed)


def _column_hash(values: pyarrow.ChunkedArray, type_: str | None) -> str:
    """Hash lengths (-1 for NULL) and bytes of the values, in order."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    normal = _normalised(values, type_)
    state = hashlib.blake2b(digest_size=16)
    for chunk in normal.chunks:
        lengths = pc.fill_null(pc.binary_length(chunk), -1)
        state.update(np.asarray(lengths, dtype="<i4").tobytes())
    state.update(b"|")
    for chunk in normal.chunks:
        filled = pa.concat_arrays([pc.fill_null(chunk, "")])
        data = filled.buffers()[2]
        if data is not None and len(filled):
            offsets = np.frombuffer(filled.buffers()[1], dtype="<i4")[filled.offset :]
            offsets = offsets[: len(filled) + 1]
            state.update(memoryview(data)[offsets[0] : offsets[-1]])
    return state.hexdigest()


def _digest(*parts: Sequence[str] | str) -> str:
    """Hash what Python writes for values, as all seeds that exist were hashed."""
    return content_digest(repr(parts).encode())
