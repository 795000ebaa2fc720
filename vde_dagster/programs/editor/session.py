"""Analysis and plan of a project, including texts that an editor has not saved.

All files are read again if a text changed or a second has passed. This takes a tenth of a second
for 1,000 models, because unchanged files and models are cached.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, SourceLocation, VdeError
from vde_dagster.execution.linting.linter import Linter, lint_problems
from vde_dagster.execution.memo import SnapshotMemo
from vde_dagster.execution.mistakes import models_without_errors
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.build_snapshots import build_snapshots, sort_mistakes
from vde_dagster.planning.checks.unit_tests import find_test_mistakes
from vde_dagster.planning.environments.contracts import find_reader_mistakes
from vde_dagster.planning.environments.environment import environment_name
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.snapshots.built import BuiltSnapshot
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.programs.editor.reading import Reading
from vde_dagster.programs.editor.words.symbols import Remembered, Symbols
from vde_dagster.project.files import decode_text, find_files
from vde_dagster.project.loading.loader import Project, load_project
from vde_dagster.project.model import Model
from vde_dagster.project.settings import Settings
from vde_dagster.reports.plan import plan_report
from vde_dagster.sql.trees import ParsedQueries
from vde_dagster.terminal.reports import report_text

_MANIFESTS = ("target/manifest.json", "target/semantic_manifest.json")
"""Files that `dbt compile` writes."""
_READ_ENDINGS = (".yaml", ".yml", ".toml", ".py")
FRESH_SECONDS = 1.0
"""Seconds for which an analysis is valid while no text changes: other programs write files, too."""


class EditorMemo(SnapshotMemo):
    """A cache of snapshots that reads the project's cache on disk, but never writes it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._built: OrderedDict[str, BuiltSnapshot] = OrderedDict()

    def get(self, key: str, model: Model) -> BuiltSnapshot | None:
        known = self._built.get(key)
        if known is None:
            known = super().get(key, model)
            if known is not None:
                self.used.pop(key)
                self._built[key] = known
            return known
        self._built.move_to_end(key)
        if known.snapshot.model is model:
            return known
        return known._replace(snapshot=replace(known.snapshot, model=model))

    def put(self, key: str, built: BuiltSnapshot) -> None:
        self._built[key] = built

    def save(self, *, keep: bool = False) -> None:
        """Do nothing, because the cache on disk is only for saved files."""

    def drop_oldest(self, most: int) -> None:
        """Drop the least recently used entries if there are more than `most`."""
        while len(self._built) > most:
            self._built.popitem(last=False)


@dataclass(frozen=True, slots=True)
class PlanPreview:
    """The plan for an environment that would result from the texts in the editor.

    Args:
        plan: None if planning is impossible; `why` has the reason.
        seconds: Duration of the work by model, estimated from earlier fills.
    """

    environment: str
    plan: Plan | None
    why: str = ""
    seconds: Mapping[ModelName, float] = field(default_factory=dict)


class EditorSession:
    """Keeps the open texts of a project in an editor, and previews the plan for one environment.

    Only one thread at a time may read; any thread may set texts.
    """

    def __init__(self, root: Path, environment: str = "prod") -> None:
        self.root, self.environment = root.resolve(), environment
        # Clients name files as the folder was opened, perhaps by a symbolic link.
        self.opened_root = Path(os.path.abspath(root))
        self._buffers: dict[str, str] = {}
        self._readable: dict[str, str] = {}
        self._lock = threading.Lock()
        self._read_buffers: Mapping[str, str] = {}
        self._generation = 0  # A counter that grows with every change of a text.
        self._read: tuple[int, float, Reading] | None = None
        self._planned: tuple[Reading, PlanPreview] | None = None
        self._symbols: Symbols | None = None
        self._known_symbols: Remembered = {}
        self._columns: dict[ModelName, Sequence[tuple[str, str]] | None] = {}

    # -- texts -----------------------------------------------------------------------------

    def watch_changes(self) -> Callable[[], bool]:
        """Return a function that returns whether a text has changed since this call."""
        generation = self._generation
        return lambda: self._generation != generation

    def set_text(self, path: str, text: str | None) -> None:
        r"""Set a file's text in the editor; None means the file on disk.

        Line ends become `\n`, as in texts from disk, which does not change lines and columns.
        """
        with self._lock:
            self._generation += 1
            if text is None:
                self._buffers.pop(path, None)
                self._readable.pop(path, None)
            else:
                self._buffers[path] = text.replace("\r\n", "\n").replace("\r", "\n")

    def mark_files_changed(self) -> None:
        """Record that files on disk changed, so that the next request reads them again."""
        with self._lock:
            self._generation += 1
            self._columns.clear()

    def folder_state(self) -> frozenset[tuple[str, int, int]]:
        """Return (path, size, modification time) of the project's files, without reading them.

        After the first preview, the result also has the environment's current version.
        """
        # A client may not watch files, and `git checkout` in a terminal changes many at once.
        with os.scandir(self.root) as entries:
            paths = {entry.name for entry in entries if entry.name.endswith(_READ_ENDINGS)}
        paths.update(_MANIFESTS)
        if self._read is not None:
            project = self._read[2].project
            found = find_files(project.settings)
            paths.update(path for group in fields(found) for path in getattr(found, group.name))
            code = (model.python for model in project.models.values() if model.python is not None)
            paths.update(path for python in code for path in python.files)
        state = set()
        for path in paths:
            with suppress(OSError):
                stat = os.stat(self.root / path)
                state.add((path, stat.st_size, stat.st_mtime_ns))
        if self._planned is not None:
            with suppress(VdeError):
                state.add((self.environment, self._current_version(), 0))
        return frozenset(state)

    def relative_path(self, file: Path) -> str | None:
        """Return a file's path relative to the project's folder, or None for a file outside."""
        for folder, absolute in (
            (self.opened_root, os.path.abspath),
            (self.root, os.path.realpath),
        ):
            with suppress(ValueError, OSError):  # The name may contain a null character.
                return Path(absolute(file)).relative_to(folder).as_posix()
        return None

    # -- reading ---------------------------------------------------------------------------

    def read(self) -> Reading:
        """Read the project with all current texts of the editor, and analyze its models.

        Raises:
            ProjectError: The settings are wrong, so nothing can be read.
        """
        with self._lock:
            generation, buffers = self._generation, dict(self._buffers)
            self._read_buffers = buffers
        known, now = self._read, time.monotonic()
        if known is not None and known[0] == generation and now - known[1] < FRESH_SECONDS:
            return known[2]
        reading = self._read_texts(buffers)
        if known is not None and known[0] == generation and _is_same_reading(known[2], reading):
            reading = known[2]  # Reused, with its plan.
        self._read = generation, time.monotonic(), reading
        return reading

    def last_reading(self) -> Reading:
        """Return the current texts with the result of the last analysis, which may be outdated."""
        # Requests during typing depend only on words.
        if self._read is None:
            return self.read()
        with self._lock:
            return replace(self._read[2], buffers=dict(self._buffers))

    def read_with_texts(self, texts: Mapping[str, str]) -> Reading:
        """Read the project with the given texts of files, to check a rename before it is made."""
        with self._lock:
            buffers = {**self._buffers, **texts}
        return self._read_texts(buffers)

    def symbols(self) -> Symbols:
        reading = self.read()
        if self._symbols is None or self._symbols.reading is not reading:
            kept = 4 * len(reading.project.models) + 100
            if len(self._known_symbols) > kept:
                self._known_symbols.clear()
            self._symbols = Symbols(reading, self._known_symbols)
        return self._symbols

    def _read_texts(self, buffers: Mapping[str, str]) -> Reading:
        # Python runs when it is read, so a half-typed text must not be.
        typed = {path: text for path, text in buffers.items() if not path.endswith(".py")}
        project, parsed = self._load(typed)
        mistakes = list(project.problems)
        wrong = {m.location.path.as_posix() for m in mistakes if m.location is not None}
        before = {
            path: self._readable.get(path) or self._saved_text(path) or ""
            for path in wrong & typed.keys()
        }
        before = {path: text for path, text in before.items() if text not in ("", typed[path])}
        broken = frozenset(before)
        if broken:
            project, parsed = self._load({**typed, **before})
            said = {str(mistake) for mistake in mistakes}
            more = (p for p in project.problems if str(p) not in said)
            mistakes += (p for p in more if p.location is None or _path(p) not in broken)
        if buffers is self._read_buffers:
            self._readable |= {path: text for path, text in typed.items() if path not in wrong}
        snapshots: dict[ModelName, Snapshot] = {}
        warnings: list[Problem] = []
        found = self._snapshots(project, parsed, snapshots, warnings)
        mistakes += (m for m in found if m.location is None or _path(m) not in broken)
        # Warnings about an earlier text have places in that text.
        warnings = [w for w in warnings if _path(w) not in broken]
        return Reading(
            project, snapshots, tuple(sort_mistakes(mistakes)), tuple(warnings), buffers, broken
        )

    def _load(self, typed: Mapping[str, str]) -> tuple[Project, ParsedQueries]:
        parsed = ParsedQueries()
        instead = {
            path: text.encode() for path, text in typed.items() if text != self._saved_text(path)
        }
        return load_project(self.root, strict=False, parsed=parsed, instead=instead), parsed

    def _saved_text(self, path: str) -> str | None:
        with suppress(OSError, ProjectError):
            return decode_text(Path(path), (self.root / path).read_bytes())
        return None

    def _snapshots(
        self,
        project: Project,
        parsed: ParsedQueries,
        snapshots: dict[ModelName, Snapshot],
        warnings: list[Problem],
    ) -> tuple[ProjectError, ...]:
        settings = project.settings
        models = models_without_errors(project) if project.problems else project.models

        def more(known: Mapping[ModelName, Snapshot]) -> Iterator[ProjectError]:
            snapshots.update(known)
            yield from find_test_mistakes(project.tests, models, known)
            yield from find_reader_mistakes(project.exposures, known, warnings)
            if settings.linter.enabled and not project.problems:
                yield from lint_problems(Linter(project), known, warnings)

        try:
            build_snapshots(
                models,
                self._catalog_columns,
                memo=self._memo,
                parsed=parsed,
                scalar_functions=settings.scalar_functions,
                functions=settings.functions,
                warnings=warnings,
                more=more,
            )
        except ProjectError as error:
            return error.mistakes
        finally:
            self._memo.drop_oldest(4 * len(models) + 100)
        return ()

    @cached_property
    def _memo(self) -> EditorMemo:
        return EditorMemo(self._workspace.settings.work_dir / "cache" / "snapshots")

    @cached_property
    def _workspace(self) -> Workspace:
        return Workspace.open(self.root)

    def _catalog_columns(self, name: ModelName) -> Sequence[tuple[str, str]] | None:
        if name not in self._columns:
            self._columns[name] = ()  # Without a catalog any table may exist.
            with suppress(VdeError):
                if self._workspace.has_state:
                    self._columns[name] = self._workspace.catalog_columns(name)
        return self._columns[name]

    # -- plan ------------------------------------------------------------------------------

    def preview_plan(self) -> PlanPreview:
        """Plan the current texts for the environment without storing the plan."""
        reading = self.read()
        if self._planned is not None and self._planned[0] is reading:
            return self._planned[1]
        outlook = self._make_preview(reading)
        self._planned = reading, outlook
        return outlook

    def _make_preview(self, reading: Reading) -> PlanPreview:
        if reading.mistakes:
            return PlanPreview(self.environment, None, "the project has mistakes")
        if not self._workspace.has_state:
            return PlanPreview(self.environment, None, "nothing is published yet")
        workspace = self._workspace
        try:
            workspace.use_project(reading.project, self._memo)
            plan = workspace.plans.make(self.environment, save=False)
            work = workspace.plans.estimate(plan).models.items()
            known = {name: one.seconds.expected for name, one in work if one.seconds}
            return PlanPreview(self.environment, plan, seconds=known)
        except VdeError as error:
            return PlanPreview(self.environment, None, error.message)

    def _current_version(self) -> int:
        if not self._workspace.has_state:
            return 0
        environments = self._workspace.store.environments
        return environments.current_version(environment_name(self.environment)) or 0

    @property
    def settings(self) -> Settings:
        return self.read().project.settings

    def close(self) -> None:
        if "_workspace" in self.__dict__:
            self._workspace.close()


def plan_text(session: EditorSession) -> str:
    outlook = session.preview_plan()
    if outlook.plan is None:
        return f"No plan for `{outlook.environment}`: {outlook.why}.\n"
    report = plan_report(
        outlook.plan,
        session._workspace.plans.previous_snapshots(outlook.plan),
        lambda model: outlook.seconds.get(model.name),
    )
    return f"# Plan for `{outlook.environment}`\n\n```text\n{report_text(report, 100)}\n```\n"


def _is_same_reading(one: Reading, other: Reading) -> bool:
    return (
        one.project.files_hash == other.project.files_hash
        and one.broken == other.broken
        and list(map(str, one.mistakes)) == list(map(str, other.mistakes))
    )


def _path(problem: ProjectError | Problem) -> str:
    location = problem.location or SourceLocation(Path())
    return location.path.as_posix()
