"""The project's own rules of the linter: classes in Python files of `linter/`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.base.said import said as told
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.execution.linting.views import ContextView, ModelView
from vde_dagster.planning.lint.linted import Linted, Violation
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.linting import Rule, RuleViolation
from vde_dagster.project.settings import Settings
from vde_dagster.project.sources.find_files import linter_files


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

        from vde_dagster.project.reading.text_files import decoded

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
