"""Cells of a notebook's file, the cells' code as Python, and the notebook as JSON and text.

Format: https://nbformat.readthedocs.io/en/latest/format_description.html
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vde_dagster.errors import ProjectError, SourceLocation

PARAMETERS = "parameters"
"""Tag of the cell whose variables a step sets, the same as in papermill."""
_SKIPPED = "skip-execution"
"""Tag of cells that nbclient does not run."""
_RUNS = [
    f"get_ipython().{name}" for name in ("run_cell_magic", "run_line_magic", "system", "getoutput")
]
"""Functions of IPython that magics and `!` become."""
_HEADER = re.compile(r"\s*MODEL\s*\(", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a notebook.

    Args:
        kind: `code`, `markdown` or `raw`.
        number: The cell's position among all cells, from 1.
    """

    kind: str
    source: str
    tags: tuple[str, ...]
    number: int

    @property
    def is_run(self) -> bool:
        return self.kind == "code" and _SKIPPED not in self.tags


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook without its outputs.

    Args:
        path: Relative to the project's folder.
        kernel: The metadata that names its kernel and language.
    """

    path: Path
    cells: tuple[Cell, ...]
    kernel: Mapping[str, Any]

    @property
    def header(self) -> str | None:
        """The `MODEL (…)` header in the first cell, or None if the notebook is not a model.

        Raises:
            ProjectError: The header is in a code cell.
        """
        first = self.cells[0] if self.cells else None
        if first is None or not _HEADER.match(first.source):
            return None
        if first.kind == "code":
            raise ProjectError(
                "the header MODEL (…) is in a code cell",
                hint="make the first cell a raw cell",
                location=SourceLocation(self.path),
            )
        return first.source

    @property
    def normal_form(self) -> str:
        """The notebook as JSON without outputs, execution counts and ids."""
        cells: list[dict[str, Any]] = [
            {
                "cell_type": cell.kind,
                "metadata": {"tags": list(cell.tags)} if cell.tags else {},
                "source": cell.source,
                **({"outputs": [], "execution_count": None} if cell.kind == "code" else {}),
            }
            for cell in self.cells
        ]
        made = {"cells": cells, "metadata": self.kernel, "nbformat": 4, "nbformat_minor": 4}
        return json.dumps(made, ensure_ascii=False, sort_keys=True)

    @property
    def text(self) -> str:
        """The notebook as plain text, with `# %%` before each code cell, for diffs."""
        shown = []
        for cell in self.cells:
            lines = cell.source.strip("\n").split("\n")
            if cell.kind == "code":
                shown.append("\n".join(["# %%", *lines]))
            elif cell.number == 1 and cell.kind == "raw":
                shown.append(cell.source)
            else:
                commented = (f"# {line}".rstrip() for line in lines)
                shown.append("\n".join([f"# %% [{cell.kind}]", *commented]))
        return "\n\n".join(shown) + "\n"

    def code(self, *, with_magics: bool = False) -> list[tuple[Cell, list[ast.stmt]]]:
        """Parse the cells that run. Magics such as `%load_ext` become calls of IPython.

        Args:
            with_magics: Whether to add the code in magics such as `%%time`, and lists of the files
                that `%run` and `!` name.

        Raises:
            ProjectError: A cell is not valid Python.
        """
        found = [(cell, _parse_cell(cell, self.path)) for cell in self.cells if cell.is_run]
        if with_magics:
            for _, statements in found:
                statements += _code_of_magics(statements)
        return found


def read_notebook(path: Path, text: str) -> Notebook:
    """Read a notebook's file.

    Raises:
        ProjectError: The file is not a notebook of format 4, or is a model but not in Python.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        line, column = getattr(error, "lineno", 1), getattr(error, "colno", None)
        raise ProjectError(
            f"the notebook is not valid JSON: {getattr(error, 'msg', error)}",
            hint="open it in Jupyter and save it again",
            location=SourceLocation(path, line, column),
        ) from None
    place = SourceLocation(path)
    if not isinstance(document, dict) or document.get("nbformat") != 4:
        raise ProjectError(
            "the file is not a notebook of format 4",
            hint="open it in Jupyter and save it again, or `jupyter nbconvert --to notebook`",
            location=place,
        )
    try:
        cells = tuple(_read_cell(one, number) for number, one in enumerate(document["cells"], 1))
        metadata = document["metadata"]
        kernel = {one: metadata[one] for one in ("kernelspec", "language_info") if one in metadata}
        language = _language(kernel)
    except (AttributeError, KeyError, TypeError) as error:
        raise ProjectError(
            f"the notebook is not valid: {error}",
            hint="open it in Jupyter and save it again",
            location=place,
        ) from None
    found = Notebook(path, cells, kernel)
    if language.lower() not in ("python", "python3", "ipython") and found.header is not None:
        raise ProjectError(
            f"the notebook is in {language}, but a model must be in Python",
            hint="run it outside of the project, or write it in Python",
            location=place,
        )
    return found


def _read_cell(written: Mapping[str, Any], number: int) -> Cell:
    source: str | Sequence[str] = written["source"]
    text = source if isinstance(source, str) else "".join(source)
    tags = tuple(map(str, written.get("metadata", {}).get("tags", ())))
    return Cell(str(written["cell_type"]), text, tags, number)


def _language(kernel: Mapping[str, Any]) -> str:
    named = kernel.get("language_info", {}).get("name")
    return str(named or kernel.get("kernelspec", {}).get("language") or "python")


def _parse_cell(cell: Cell, path: Path) -> list[ast.stmt]:
    try:
        return _parse_code(cell.source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f", line {line}" if line else ""
        raise ProjectError(
            f"cell {cell.number}{where}: syntax error: {getattr(error, 'msg', error)}",
            hint=f"check: {(getattr(error, 'text', None) or '').strip()}",
            location=SourceLocation(path),
        ) from None


def _parse_code(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError):
        pass  # It may have magics.
    from IPython.core.inputtransformer2 import TransformerManager

    return ast.parse(TransformerManager().transform_cell(source)).body


def _code_of_magics(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    nodes = (node for one in statements for node in ast.walk(one))
    return [one for node in nodes if isinstance(node, ast.Call) for one in _run_by_magic(node)]


def _run_by_magic(call: ast.Call) -> list[ast.stmt]:
    """Return the code that a magic such as `%%time` runs, and a list of the files after `%run`."""
    if ast.unparse(call.func) not in _RUNS:
        return []
    texts = [one.value for one in call.args if isinstance(one, ast.Constant)]
    if not texts or texts[0] in ("vde", "model"):
        return []
    text = str(texts[-1])
    words = [f"{word}.py" for word in text.split()] if texts[0] == "run" else []
    # Strings with the names of files make these files part of the version.
    words += [word for word in " ".join(map(str, texts)).split() if re.search(r"[./]", word)]
    files = ast.parse(str(words)).body if words else []
    try:
        found = _parse_code(text)
    except (SyntaxError, ValueError):
        return files
    return [*files, *found, *_code_of_magics(found)]
