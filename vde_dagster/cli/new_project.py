"""Making a new project from the template that comes with the package."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from vde_dagster.errors import UsageError

TEMPLATE = Path(__file__).parent / "template"
DEFINITIONS = "definitions.py"

# Packaging drops files with a leading dot, and an installation compiles Python files in place.
_NAMES = {"gitignore": ".gitignore", "definitions.txt": DEFINITIONS}
_OF_EVERY_FOLDER = frozenset({".gitignore", "README.md", "pyproject.toml"})


@dataclass(frozen=True, slots=True)
class NewProject:
    """What `new_project` did, as paths relative to the folder, sorted.

    Args:
        written: The files that were written.
        kept: Files that were there already and are as they were.
        id: By what the new project is known again.
    """

    written: tuple[str, ...]
    kept: tuple[str, ...]
    id: str


def new_project(folder: Path, *, dagster: bool = True) -> NewProject:
    """Write a small project that runs as it is.

    A file that exists is never written over: those that any folder may have (`.gitignore`,
    `README.md`, `pyproject.toml`) are kept, as a project runs without ours.

    Args:
        folder: Where to; made when it does not exist. Files of other names in it are left alone.
        dagster: Whether to write `definitions.py`, Dagster's code location.

    Raises:
        UsageError: The folder has models, or another file that would be written; nothing was
            written.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"'{folder}' is a file", hint="give another folder: vde init DIR")
    template = {
        _target(path): path.read_text("utf-8") for path in TEMPLATE.rglob("*") if path.is_file()
    }
    project_id = secrets.token_hex(8)
    template["pyproject.toml"] = template["pyproject.toml"].replace("$ID", project_id)
    if not dagster:
        del template[DEFINITIONS]
    there = {path for path in template if (folder / path).exists()}
    taken = sorted(there - _OF_EVERY_FOLDER)
    if (folder / "models").exists():
        taken = ["models", *(path for path in taken if not path.startswith("models/"))]
    if taken:
        hint = "give another folder: vde init DIR"
        if taken == [DEFINITIONS]:
            hint += f"; or keep your {DEFINITIONS}: vde init --no-dagster"
        raise UsageError(f"'{folder}' already has {', '.join(taken)}", hint=hint)
    written = sorted(template.keys() - there)
    for path in written:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(template[path], "utf-8")
    return NewProject(tuple(written), tuple(sorted(there)), project_id)


def _target(path: Path) -> str:
    """Name a template's file in the project."""
    relative = path.relative_to(TEMPLATE).as_posix()
    return _NAMES.get(relative, relative)
