"""Notebooks for tests, written to a project as Jupyter saves them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import nbformat

from vde_dagster_tests.projects import ProjectFolder

MAKERS = {
    "raw": nbformat.v4.new_raw_cell,
    "markdown": nbformat.v4.new_markdown_cell,
    "code": nbformat.v4.new_code_cell,
}
Cells = Sequence[tuple[str, str] | tuple[str, str, str]]
"""Cells as (kind, source) or (kind, source, tag)."""


def write_notebook(folder: ProjectFolder, path: str, cells: Cells) -> Path:
    """Write a notebook; every time with other ids of cells."""
    made = [
        MAKERS[kind](source, metadata={"tags": tags} if tags else {})
        for kind, source, *tags in cells
    ]
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python", "language": "python"}}
    notebook = nbformat.v4.new_notebook(cells=made, metadata=metadata)
    target = folder.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)
    return target
