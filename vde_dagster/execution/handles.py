"""Opened handles of a project: its settings, files, state, catalog and engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.base.failures import Problem
from vde_dagster.base.locations import normal_location
from vde_dagster.base.names import ModelName
from vde_dagster.base.workers import Workers
from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.execution.memo import SnapshotMemo
from vde_dagster.planning.build_snapshots import CatalogColumns, MoreMistakes, build_snapshots
from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.project.files import decode_text, files_in, git_changes, project_file_path
from vde_dagster.project.secrets import expand_secrets
from vde_dagster.project.settings import Settings
from vde_dagster.sql.trees import ParsedQueries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Self

    from vde_dagster.lakehouse.lakehouse import Lakehouse
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.project.loading.loader import Project
    from vde_dagster.project.model import Model
    from vde_dagster.spark.engine import SparkEngine
    from vde_dagster.state.db.effects import Clock, Effects
    from vde_dagster.state.store import StateStore


@dataclass(eq=False)
class Handles:
    """Opened project: its folder, settings, models, state store, catalog and Spark engine."""

    # Each part is opened at its first use. Functions of this package take handles. The facets of
    # `Workspace` are for other packages.
    root: Path
    _engine: SparkEngine | None
    _lent: bool
    _join: Callable[[], SparkSession] | None
    _clock: Clock | None
    _effects: Effects | None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _origin: str = ""
    _stops: dict[str, threading.Event] = field(default_factory=dict)
    _base: Handles | None = None
    process_ends: bool = False

    @classmethod
    def open(
        cls,
        root: Path,
        *,
        engine: SparkEngine | None = None,
        join: Callable[[], SparkSession] | None = None,
        clock: Clock | None = None,
        effects: Effects | None = None,
    ) -> Self:
        """Open a project, without reading or starting anything before it is needed.

        Args:
            engine: An engine to use instead of starting one. It is not closed here.
            join: Starts or returns an external Spark session, which the engine uses.
            effects: In tests, an object that can make each side effect of the state store fail.

        Raises:
            UsageError: The folder does not exist.
        """
        if not root.is_dir():
            raise UsageError(
                f"the folder '{root}' does not exist",
                hint="pass the project's folder with --project, or create a project: vde init",
            )
        return cls(root.resolve(), engine, engine is not None, join, clock, effects)

    def over_folder(self, root: Path) -> Self:
        """Return this project with another folder's settings and files, such as a commit's.

        Raises VdeError if the folder's settings cannot be read.
        """
        # The returned project shares the state and the catalog, which only this project closes.
        from vde_dagster.project.loading.loader import read_settings

        other = type(self)(root, self._engine, True, self._join, self._clock, self._effects)
        other._base = self
        other.settings = read_settings(root, use_cache=False)
        return other

    def work_for(self, origin: str) -> None:
        """Set the origin, such as a Dagster run, that later outbox records get."""
        self._origin = origin
        if "store" in self.__dict__:
            self.store.database.origin = origin

    @cached_property
    def settings(self) -> Settings:
        from vde_dagster.project.loading.loader import read_settings

        return read_settings(self.root)

    @cached_property
    def project(self) -> Project:
        """The project.

        Raises:
            ProjectError: Files have errors; contains all of them.
            UsageError: The folder has no models.
        """
        from vde_dagster.project.loading.loader import load_project, no_models_error

        project = load_project(self.root, strict=False, parsed=self.parsed, workers=self._workers)
        if project.problems:
            from vde_dagster.execution.mistakes import all_mistakes

            self._workers.close()
            raise all_mistakes(project, self.parsed)
        if not project.models:
            raise no_models_error(project.settings)
        return project

    @property
    def readable_project(self) -> Project:
        """The project, or its readable part if files have errors."""
        from vde_dagster.project.loading.loader import load_project_isolated

        return self.__dict__.get("project") or load_project_isolated(self.root, strict=False)

    @cached_property
    def parsed(self) -> ParsedQueries:
        """Syntax trees of the queries parsed while the project was loaded."""
        return ParsedQueries()

    def path(self, path: str | Path) -> Path:
        """Return the path of a file in the project's folder. The file need not exist.

        Raises UsageError if the path, or a symbolic link in it, leads out of the folder.
        """
        return project_file_path(self.root, path)

    def changed_files(self, branch: str) -> frozenset[str]:
        """Return the project's files that changed after HEAD forked from a git branch."""
        return git_changes(self.root, branch)

    def files_in(self, folder: str, *endings: str) -> list[str]:
        """List the files below a folder with one of the endings, except ignored files."""
        return files_in(self.settings, folder, *endings)

    def text(self, path: str) -> str:
        r"""Return a file's text, by its path relative to the project, with `\n` as line ending.

        Raises ProjectError if the file is too large, or not UTF-8.
        """
        return decode_text(Path(path), (self.root / path).read_bytes())

    @property
    def has_state(self) -> bool:
        file = self._state_file
        return file is None or file.exists()

    @property
    def _state_file(self) -> Path | None:
        url = self.settings.resolved_state_url
        is_file = url.startswith("sqlite:///")
        return Path(url.removeprefix("sqlite:///")) if is_file else None

    @cached_property
    def store(self) -> StateStore:
        """The state store; UsageError if it would be created in a folder that is not a project."""
        from vde_dagster.state.store import StateStore

        if self._base is not None:
            return self._base.store
        file = self._state_file
        if file is not None and not file.exists():
            from vde_dagster.project.loading.loader import require_files

            require_files(self.root)
        url = self.settings.resolved_state_url
        store = StateStore.open(url, clock=self._clock, effects=self._effects)
        store.database.origin = self._origin
        store.project.own = self.settings.identity
        store.project.warehouse = normal_location(self.settings.resolved_warehouse)
        store.project.require_models = self._require_models
        store.database.before_writing = store.project.require_own
        return store

    @property
    def has_models(self) -> bool:
        """Whether the project's folder may define models; its files are not parsed."""
        from vde_dagster.project.loading.loader import has_models

        return has_models(self.settings)

    def _require_models(self) -> None:
        from vde_dagster.project.loading.loader import no_models_error

        if not self.has_models:
            raise no_models_error(self.settings)

    @cached_property
    def lakehouse(self) -> Lakehouse:
        """The Iceberg tables and views of the project's catalog."""
        from vde_dagster.lakehouse.catalogs.by_settings import outside_catalog
        from vde_dagster.lakehouse.lakehouse import Lakehouse

        if self._base is not None:
            return self._base.lakehouse
        settings = self.settings
        return Lakehouse(
            self.store,
            settings.catalog,
            settings.resolved_warehouse,
            expand_secrets(settings.io),
            catalog=outside_catalog(settings, self.store.database.effects),
        )

    def engine(self) -> SparkEngine:
        """Return the engine, which is created at the first call and starts when it is used."""
        with self._lock:
            if self._engine is None:
                from vde_dagster.spark.engine import SparkEngine

                self._engine = SparkEngine(
                    self.settings, self.root, self.lakehouse, join=self._join
                )
            return self._engine

    def start_engine_in_background(self, *, writes: bool = True) -> None:
        """Start the project's own engine in a thread.

        A process that passes `writes=False` must not import PySpark before it uses the engine, see
        `SparkEngine.start_in_background`.
        """
        if not self._lent and self._join is None:
            self.engine().start_in_background(writes=writes)

    def start_engine_for_first_plan(self) -> None:
        """Load the project, and then start its engine in a thread, to compute all models.

        Raises:
            ProjectError: Files have errors; contains all of them.
            UsageError: The folder has no models.
        """
        # Two threads that import a package with circular imports can get half of it, so the
        # project's Python files are imported before.
        _ = self.project
        self.start_engine_in_background()

    def require_engine(self) -> None:
        """Raise NoSparkError if Java or the Spark master is unavailable. Starts nothing."""
        if not self._lent and self._join is None:  # It may be starting in the background.
            from vde_dagster.spark.session.session import require_spark
            from vde_dagster.spark.session.settings import SessionSettings

            require_spark(SessionSettings.from_settings(self.settings))

    @property
    def started_engine(self) -> SparkEngine | None:
        return self._engine

    @contextmanager
    def stoppable(self, work_id: str) -> Iterator[threading.Event]:
        """Yield a stop event for running work. The method `cancel` sets the event."""
        self._stops[work_id] = threading.Event()
        try:
            yield self._stops[work_id]
        finally:
            del self._stops[work_id]

    def cancel(self, work_id: str) -> None:
        """Stop a running apply or audit of this process, and its Spark jobs, from any thread."""
        stop = self._stops.get(work_id)
        if stop is not None:
            stop.set()
        if self._engine is not None:
            self._engine.cancel(work_id)

    def snapshots(self) -> dict[ModelName, Snapshot]:
        """Build the snapshots of the project's models, parents before children."""
        return self.snapshots_of(self.project.models, self.parsed, [])

    def snapshots_of(
        self,
        models: Mapping[ModelName, Model],
        parsed: ParsedQueries | None = None,
        warnings: list[Problem] | None = None,
        more: MoreMistakes | None = None,
        revise: Callable[[Snapshot], Snapshot] | None = None,
        catalog_columns: CatalogColumns | None = None,
    ) -> dict[ModelName, Snapshot]:
        """Build the snapshots of given models, parents before children. See `build_snapshots`.

        Args:
            warnings: Receives likely errors in definitions; by default they are not searched for.
            catalog_columns: Looks up external tables, instead of the project's catalog.

        Raises:
            ProjectError: A query uses columns that its parents do not have, or a check found an
                error.
        """
        # Workers that have just read files have the trees of their queries.
        # Warnings about a stored definition would be useless, because it cannot be corrected.
        workers = self.__dict__.pop("_workers", None) or Workers(self.settings.load_processes)
        try:
            return build_snapshots(
                models,
                catalog_columns
                or (self.catalog_columns if warnings is None else self._external_columns),
                memo=self._memo,
                parsed=parsed,
                scalar_functions=self.settings.scalar_functions,
                functions=self.settings.functions,
                warnings=warnings,
                more=more,
                revise=revise,
                workers=workers,
            )
        finally:
            workers.close()
            self._memo.save()

    @cached_property
    def _workers(self) -> Workers:
        return Workers(self.settings.load_processes)

    @cached_property
    def _memo(self) -> SnapshotMemo:
        return SnapshotMemo(self.settings.work_dir / "cache" / "snapshots")

    def catalog_columns(self, name: ModelName) -> Sequence[tuple[str, str]] | None:
        """Return (column, Spark SQL type) of a catalog table, or None if it does not exist."""
        found = self.lakehouse.relation_columns(TableRef(name.namespace, name.name))
        return None if found is None else [(column, type_) for column, type_, _ in found]

    def _external_columns(self, name: ModelName) -> Sequence[tuple[str, str]] | None:
        from vde_dagster.lakehouse.publishing.view_ledger import published_views

        columns, ref = self.catalog_columns(name), TableRef(name.namespace, name.name)
        if columns is not None:
            with self.lakehouse.store.database.reading() as connection:
                views = published_views(connection, self.lakehouse.catalog_name, refs=[ref])
            if ref in views and views[ref].environment == PRODUCTION:
                raise ProjectError(
                    f"{name} is a view of '{PRODUCTION}', but no file of the project defines it",
                    hint="restore the model's file, or remove its name from the queries that read "
                    "it; if they mean an external table, give that table another name",
                )
        return columns

    def use_project(self, project: Project, memo: SnapshotMemo) -> None:
        """Replace the project and settings, for example after an editor changed a text."""
        self.reload()
        self.__dict__.update(project=project, settings=project.settings, _memo=memo)

    def reload(self) -> None:
        """Forget the project and settings, so that the next use reads the files again."""
        for name in ("project", "settings"):
            self.__dict__.pop(name, None)

    def close(self) -> None:
        """Close the store, and stop the engine and workers that were started here."""
        if "_workers" in self.__dict__:
            self._workers.close()
        if self._engine is not None and not self._lent:
            self._engine.close(process_ends=self.process_ends)
            self._engine = None
        if "store" in self.__dict__:
            self.store.close()
            for name in ("store", "lakehouse"):
                self.__dict__.pop(name, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()
