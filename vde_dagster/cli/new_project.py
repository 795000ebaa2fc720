"""Making a new project from the template that comes with the package."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.errors import UsageError

TEMPLATE = Path(__file__).parent / "template"


def new_project(folder: Path) -> list[str]:
    """Write a small project that runs as it is.

    Args:
        folder: Where to; made when it does not exist. Files of other names in it are left alone.

    Returns:
        The files that were written, relative to the folder.

    Raises:
        UsageError: One of the files exists; nothing was written.
    """
    template = {
        _target(path): path.read_text("utf-8") for path in TEMPLATE.rglob("*") if path.is_file()
    }
    taken = sorted(path for path in template if (folder / path).exists())
    if (folder / "models").exists():
        taken.insert(0, "models")
    if taken:
        raise UsageError(
            f"'{folder}' already has {', '.join(taken)}",
            hint="give another folder: vde init DIR",
        )
    for path, text in template.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    return sorted(template)


def _target(path: Path) -> str:
    """Name a template's file in the project; `gitignore` gets the dot that packaging drops."""
    relative = path.relative_to(TEMPLATE).as_posix()
    return ".gitignore" if relative == "gitignore" else relative
