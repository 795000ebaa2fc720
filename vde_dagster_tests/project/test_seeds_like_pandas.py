"""A seed's values and NULLs are those that pandas reads, setting by setting."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vde_dagster.errors import SourceLocation
from vde_dagster.project.kinds import Seed
from vde_dagster.project.kinds.seed import MISSING
from vde_dagster.project.reading.seeds import read_csv

PLACE = SourceLocation(Path("x.csv"))
CELLS = st.one_of(
    st.sampled_from([*MISSING, " NA", "NA ", "?", "0", "1.0", "true", "inf", "Null", "NAN"]),
    st.text(st.sampled_from("ab \t,;|'\"\\\n\u00e9-"), max_size=4),
)


def read_by_pandas(content: str, kind: Seed) -> list[list[str | None]]:
    """What pandas makes of it when every column is text."""
    by_column = {name: list(texts) for name, texts in kind.column_null_values}
    values: Any = by_column or list(kind.null_values)
    frame = pd.read_csv(
        io.StringIO(content),
        dtype=str,
        index_col=False,
        on_bad_lines="error",
        low_memory=False,
        delimiter=kind.delimiter,
        quotechar=kind.quotechar,
        doublequote=kind.doublequote,
        escapechar=kind.escapechar or None,
        skipinitialspace=kind.skipinitialspace,
        lineterminator=kind.lineterminator or None,
        na_values=values or None,
        keep_default_na=kind.missing == "default",
    )
    return [[None if pd.isna(cell) else str(cell) for cell in frame[name]] for name in ("k", "a")]


def written(cell: str, kind: Seed, quoted: bool) -> str:
    """A field that can be read again."""
    end = kind.lineterminator or "\n"
    special = {kind.delimiter, kind.quotechar, "\n", "\r", end, kind.escapechar}
    if kind.escapechar:
        signs = {kind.escapechar, kind.quotechar, kind.delimiter, end, "\n"}
        body = "".join(kind.escapechar + c if c in signs else c for c in cell)
        return f"{kind.quotechar}{body}{kind.quotechar}" if quoted or "\n" in cell else body
    if not kind.doublequote:
        cell = cell.replace(kind.quotechar, "")
    if quoted or special & set(cell) or cell[:1] == " ":
        return kind.quotechar + cell.replace(kind.quotechar, kind.quotechar * 2) + kind.quotechar
    return cell


KINDS = st.builds(
    Seed,
    path=st.just("x.csv"),
    delimiter=st.sampled_from(",;\t|"),
    quotechar=st.sampled_from("\"'"),
    doublequote=st.booleans(),
    escapechar=st.sampled_from(["", "", "\\"]),
    skipinitialspace=st.booleans(),
    lineterminator=st.sampled_from(["", "", "~"]),
    null_values=st.sampled_from([(), ("?", "0")]),
    column_null_values=st.sampled_from([(), (("a", ("?", "b")),)]),
    missing=st.sampled_from(["default", "given"]),
)


@pytest.mark.proof
@settings(max_examples=400)
@given(KINDS, st.lists(st.tuples(CELLS, st.booleans()), min_size=1, max_size=6))
def test_values_and_nulls_are_those_of_pandas(kind: Seed, cells: list[tuple[str, bool]]) -> None:
    if kind.null_values and kind.column_null_values:
        kind = Seed("x.csv", null_values=kind.null_values, missing=kind.missing)
    end = kind.lineterminator or "\n"
    lines = [f"k{kind.delimiter}a"]
    lines += [f"{n}{kind.delimiter}{written(c, kind, q)}" for n, (c, q) in enumerate(cells)]
    content = end.join([*lines, ""])

    table = read_csv(content.encode(), kind, PLACE)

    assert isinstance(table, pa.Table)
    assert [table[name].to_pylist() for name in ("k", "a")] == read_by_pandas(content, kind)


def test_the_texts_that_are_missing_are_pandas_own() -> None:
    from pandas._libs.parsers import STR_NA_VALUES

    assert set(MISSING) == set(STR_NA_VALUES)
