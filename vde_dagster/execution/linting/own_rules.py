"""The project's own lint rules, and the views of models, in SQLMesh's words, that they see."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.base.failures import said as told
from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.planning.lint import Linted, Violation
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.files import linter_files
from vde_dagster.project.linting import Rule, RuleViolation
from vde_dagster.project.python.annotations import Context, Model
from vde_dagster.project.settings import Settings

if TYPE_CHECKING:
    from sqlglot import exp


class OwnRules:
    """The rules that a project defines; one of a name that there is already takes its place.

    Args:
        settings: The project's settings.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._context: ContextView | None = None

    @cached_property
    def _texts(self) -> dict[str, str]:
        from pathlib import Path

        from vde_dagster.project.files import decoded

        root = self._settings.root
        return {
            path: decoded(Path(path), (root / path).read_bytes())
            for path in linter_files(self._settings)
        }

    @cached_property
    def key(self) -> str:
        """Hash of the files, and of the modules of the project that they import."""
        if not self._texts:
            return ""
        from vde_dagster.project.python.files import with_local_imports

        files: dict[str, str] = {}
        for path, text in self._texts.items():
            files |= with_local_imports(self._settings.root, path, text)
        return digest("rules", *(part for item in sorted(files.items()) for part in item))

    @cached_property
    def _rules(self) -> dict[str, tuple[type[Rule], str]]:
        """Each rule's class and file, by name."""
        from vde_dagster.project.python.files import run_file

        found: dict[str, tuple[type[Rule], str]] = {}
        mistakes: list[ProjectError] = []
        for path, text in self._texts.items():
            try:
                module, _, _ = run_file(self._settings.root, path, text)
            except ProjectError as error:
                mistakes.append(error)
                continue
            for value in vars(module).values():
                rule = isinstance(value, type) and issubclass(value, Rule) and value is not Rule
                # Others are imported from their files.
                if rule and value.__module__ == module.__name__:
                    found[value.name] = (value, path)
        if mistakes:
            raise ProjectError.of(mistakes)
        return found

    @property
    def names(self) -> Collection[str]:
        """The rules' names.

        Raises:
            ProjectError: A file cannot be executed.
        """
        return self._rules.keys() if self._texts else ()

    def looking_at(
        self, snapshots: Mapping[ModelName, Snapshot], tested: Collection[ModelName]
    ) -> OwnRules:
        """Give rules the project around the models that they look at."""
        self._context = ContextView(self._settings, snapshots, tested)
        return self

    def check(self, name: str, linted: Linted) -> tuple[tuple[Violation, ...], bool]:
        """Let a rule look at a model.

        Returns:
            What it says, and whether it has looked at nothing else.

        Raises:
            ProjectError: The rule fails; points at its line.
        """
        from pathlib import Path

        from vde_dagster.project.python.files import where_raised

        rule, path = self._rules[name]
        assert self._context is not None
        before = self._context.asked
        try:
            said = rule(self._context).check_model(ModelView(linted.snapshot, self._settings))
            return _violations(said, linted, name, path), self._context.asked == before
        except ProjectError:
            raise
        except (Exception, SystemExit) as error:
            raise ProjectError(
                f"rule {name} fails for {linted.model.name}: {told(error)}",
                hint="correct the rule",
                location=where_raised(error, Path(path)),
            ) from error


def _violations(said: object, linted: Linted, name: str, path: str) -> tuple[Violation, ...]:
    from pathlib import Path

    given = [] if said is None else list(said) if isinstance(said, list | tuple) else [said]
    messages = []
    for one in given:
        if not isinstance(one, RuleViolation):
            raise ProjectError(
                f"rule {name} returns a {type(one).__name__}",
                hint="return self.violation('…'), a list of them, or None",
                location=SourceLocation(Path(path)),
            )
        messages.append(one.violation_msg)
    where = linted.model.location
    return tuple(Violation(f"{linted.model.name}: {message}", where) for message in messages)


class KindView:
    """A kind, as rules ask it: `name`, `is_full`, `is_incremental_by_time_range`, `time_column` …

    Args:
        snapshot: Its model's snapshot.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._kind = snapshot.model.kind
        self.name = self._kind.name
        self.is_symbolic = self._kind.is_external or not self._kind.is_shown
        self.is_incremental = self.name.startswith("INCREMENTAL")
        self.is_materialized = snapshot.has_table

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name.startswith("is_"):
            return name[3:].upper() == self.name
        return getattr(self._kind, name)


class ModelView(Model):
    """A model as rules ask it: SQLMesh's names for what ours says, and all of ours.

    Args:
        snapshot: The model's snapshot.
        settings: The project's settings.
    """

    def __init__(self, snapshot: Snapshot, settings: Settings) -> None:
        self._snapshot = snapshot
        self._settings = settings
        model = snapshot.model
        self.name = str(model.name)
        self.fqn = str(model.name)
        self.view_name = model.name.name
        self.schema_name = model.name.namespace
        self.kind = KindView(snapshot)
        self.depends_on = {str(name) for name in model.depends_on}
        self.tags = list(model.tags)
        self.audits = [(audit.name, dict(audit.arguments)) for audit in model.audits]
        self.columns = {column.name: column.type for column in snapshot.columns}
        self.column_descriptions = {
            column.name: column.description for column in snapshot.columns if column.description
        }
        self.dialect = "spark"
        self.is_sql = model.query is not None
        self.is_python = model.python is not None
        self.is_seed = not (self.is_sql or self.is_python)
        self._path = self.path = settings.root / Path(model.location.path)

    @cached_property
    def query(self) -> exp.Expr | None:
        """Its query as SQLGlot's tree."""
        from sqlglot import parse_one

        query = self._snapshot.model.query
        return None if query is None else parse_one(query, dialect="spark")

    def render_query(self, **given: Any) -> exp.Expr | None:
        """Return its query with all macros expanded, which it always is here."""
        return self.query

    @cached_property
    def columns_to_types(self) -> dict[str, exp.DataType]:
        """The types of its columns."""
        from sqlglot import exp

        return {
            name: exp.DataType.build(type_ or "UNKNOWN", dialect="spark")
            for name, type_ in self.columns.items()
        }

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._snapshot.model, name)


class ContextView(Context):
    """The project around a model; notes that it was asked, as its answers change with others.

    Args:
        settings: The project's settings.
    """

    def __init__(
        self,
        settings: Settings,
        snapshots: Mapping[ModelName, Snapshot],
        tested: Collection[ModelName],
    ) -> None:
        self.asked = 0
        self.path = settings.root
        self._settings = settings
        self._snapshots = snapshots
        self._tested = tested

    @property
    def models(self) -> dict[str, ModelView]:
        """All models by name."""
        self.asked += 1
        return dict(self._views())

    @property
    def models_with_tests(self) -> set[str]:
        """The names of models that have unit tests."""
        self.asked += 1
        return {str(name) for name in self._tested}

    def get_model(self, name: str, raise_if_missing: bool = False) -> ModelView | None:
        """Return a model by its name, or None.

        Raises:
            KeyError: There is none, and that is to be raised.
        """
        self.asked += 1
        text = str(name).replace('"', "").replace("`", "").lower()
        for key, snapshot in self._snapshots.items():
            if str(key) == ".".join(text.split(".")[-2:]):
                return ModelView(snapshot, self._settings)
        if raise_if_missing:
            raise KeyError(name)
        return None

    def _views(self) -> Iterator[tuple[str, ModelView]]:
        for name, snapshot in self._snapshots.items():
            yield str(name), ModelView(snapshot, self._settings)
