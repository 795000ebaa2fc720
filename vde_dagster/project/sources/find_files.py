"""Which files of a folder are the product's own, and what each is for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from vde_dagster.project.settings import Settings

MATERIALIZATIONS = "materializations"
"""The folder of functions that write tables of kind CUSTOM."""
_SKIPPED = frozenset({"__pycache__", "node_modules"})
SIGNALS = "signals"
"""The folder of Python signals, beside the models or inside their folder."""
LINTER = "linter"
"""The folder of the project's own rules of the linter."""


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Paths relative to the root, with forward slashes, sorted.

    Args:
        sql: Files of models, and perhaps of audits.
        python: Files of Python models.
        macros: Files of Python macros.
        signals: Files of Python signals.
        externals: Files of external models.
        tests: Files of unit tests.
        data: CSV files.
        materializations: Files of functions that write tables.
        templates: Files of Jinja macros.
        linter: Files of rules of the linter.
    """

    sql: tuple[str, ...]
    python: tuple[str, ...]
    macros: tuple[str, ...]
    signals: tuple[str, ...]
    externals: tuple[str, ...]
    tests: tuple[str, ...]
    data: tuple[str, ...]
    materializations: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    linter: tuple[str, ...] = ()


def find_files(settings: Settings) -> FoundFiles:
    """Find a project's files.

    Audits, macros, seeds and tests are looked for both beside the models and inside their folder.
    """
    groups: dict[str, list[str]] = {
        name: [] for name in ("sql", "python", "macros", "signals", "externals", "tests", "data")
    }
    groups[MATERIALIZATIONS] = []
    groups["templates"] = []
    groups[LINTER] = linter_files(settings)
    root, models = str(settings.root), settings.models_dir.strip("/")
    for path in _walk(root, models):
        inside = path[len(models) + 1 :]
        top = inside.partition("/")[0] if "/" in inside else ""
        _sort_in(groups, path, top, settings)
    for folder in (
        settings.audits_dir,
        settings.macros_dir,
        settings.tests_dir,
        settings.seeds_dir,
        SIGNALS,
        MATERIALIZATIONS,
    ):
        if not folder.startswith(models + "/"):
            for path in _walk(root, folder.strip("/")):
                _sort_in(groups, path, folder, settings)
    for path in _walk(root, "external_models"):
        if path.endswith((".yaml", ".yml")):
            groups["externals"].append(path)
    for name in ("external_models.yaml", "external_models.yml"):
        if os.path.isfile(os.path.join(root, name)):
            groups["externals"].append(name)
    if settings.ignore_patterns:
        ignored = _ignored(root, settings.ignore_patterns)
        groups = {name: [p for p in paths if not ignored(p)] for name, paths in groups.items()}
    return FoundFiles(**{name: tuple(sorted(paths)) for name, paths in groups.items()})


def linter_files(settings: Settings) -> list[str]:
    """Find the files of the project's own rules of the linter, sorted."""
    return sorted(path for path in _walk(str(settings.root), LINTER) if path.endswith(".py"))


def _ignored(root: str, patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return what says whether a path is left out: by a pattern of its end, or found by one."""
    from glob import glob
    from pathlib import PurePosixPath

    found = {path for pattern in patterns for path in glob(pattern, root_dir=root, recursive=True)}

    def ignored(path: str) -> bool:
        known = PurePosixPath(path)
        return path in found or any(known.match(pattern) for pattern in patterns)

    return ignored


def _sort_in(groups: dict[str, list[str]], path: str, folder: str, settings: Settings) -> None:
    ending = path.rpartition(".")[2].lower()
    name = path.rpartition("/")[2]
    if ending in ("yaml", "yml"):
        if folder == settings.tests_dir:
            groups["tests"].append(path)
        elif name.startswith("external_models") or folder == "external_models":
            groups["externals"].append(path)
    elif ending == "csv":
        groups["data"].append(path)
    elif ending == "py" and folder == MATERIALIZATIONS:
        groups[MATERIALIZATIONS].append(path)
    elif ending == "py" and folder == settings.macros_dir:
        groups["macros"].append(path)
    elif ending == "py" and folder == SIGNALS:
        groups["signals"].append(path)
    elif ending == "py" and folder not in (
        settings.tests_dir,
        settings.seeds_dir,
        settings.audits_dir,
    ):
        groups["python"].append(path)
    elif ending == "sql" and folder == settings.macros_dir:
        groups["templates"].append(path)
    elif ending == "sql" and folder not in (settings.macros_dir, settings.tests_dir):
        groups["sql"].append(path)


def _walk(root: str, folder: str) -> Iterator[str]:
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        try:
            entries = list(os.scandir(os.path.join(root, current)))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _SKIPPED:
                continue
            path = f"{current}/{entry.name}"
            if entry.is_dir():
                waiting.append(path)
            else:
                yield path
