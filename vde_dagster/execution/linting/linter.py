"""Linter: rules from the settings or the project, and their cached findings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from vde_dagster.base.failures import Problem, describe_exception, find_project_line
from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import suggest
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.execution.linting.rules import (
    LINT_VERSION,
    RULES,
    ContextView,
    ModelView,
    Rule,
    RuleViolation,
    Violation,
    convert_violation,
)
from vde_dagster.execution.memo import FileMemo
from vde_dagster.planning.build_snapshots import definition_texts
from vde_dagster.planning.checks.diagnostics import place_in_header
from vde_dagster.planning.environments.contracts import find_unknown_columns
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.files import decode_text, linter_files
from vde_dagster.project.loading.loader import Project
from vde_dagster.project.model import Exposure, Model

ALL = "all"
"""Name that stands for every rule."""

ModelViolations = dict[str, tuple[Violation, ...]]
"""Results of rules for a model, by rule."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Violation of a linter rule by a model: an error if `certain` is set, otherwise a warning."""

    model: ModelName
    rule: str
    certain: bool
    violation: Violation

    @property
    def problem(self) -> Problem:
        message, location, fixes = self.violation
        hint = f"correct it, or write ignored_rules ({self.rule}) in its header"
        return Problem(f"{message} (rule {self.rule})", hint, location, self.certain, fixes)


class Linter:
    """Checks models with the linter rules of the settings.

    If `only` names rules, these are checked instead, and their violations are warnings.
    """

    def __init__(self, project: Project, only: Collection[str] = ()) -> None:
        self._settings, self._models = project.settings, project.models
        self._tested = frozenset(test.model for test in project.tests)
        self._only = tuple(name.lower() for name in only)

    @property
    def is_idle(self) -> bool:
        linter = self._settings.linter
        return not (self._only or (linter.enabled and (linter.rules or linter.warn_rules)))

    def findings(
        self, snapshots: Mapping[ModelName, Snapshot], among: Collection[ModelName] | None = None
    ) -> list[Finding]:
        """Check models, and return the violations in the order of their places in files.

        Raises:
            ProjectError: A named rule does not exist, a file of rules cannot be executed, or a rule
                fails.
        """
        # Results of unchanged models are cached.
        if self.is_idle:
            return []
        memo = FileMemo(self._settings.work_dir / "cache" / "lint", ModelViolations)
        errors, warnings = self._chosen_rules()
        context = ContextView(self._settings, snapshots, self._tested)
        found: list[Finding] = []
        for name, snapshot in snapshots.items():
            model = self._models.get(name)
            # With a selection, other models have definitions that are not in these files.
            if model is None or not _is_linted(model) or (among is not None and name not in among):
                continue
            if snapshot.model.source != model.source:
                continue
            ignored = self._ignored_rules(model)
            parents = {one: snapshots[one] for one in snapshot.parents if one in snapshots}
            tested = name in self._tested
            linted = ModelView(snapshot, self._settings, parents, tested=tested)
            key = self._cache_key(linted)
            known = memo.used.setdefault(key, memo.stored.get(key, {}))
            for rule in sorted((errors | warnings) - ignored):
                violations = known.get(rule)
                if violations is None:
                    violations, repeatable = self._run_rule(rule, linted, context)
                    if repeatable:
                        known[rule] = violations
                        memo.changed = True
                found += [Finding(name, rule, rule in errors, one) for one in violations]
        memo.save(keep=among is not None)
        return sorted(found, key=lambda one: (one.violation.location.order, one.rule))

    def count(self, among: Collection[ModelName] | None = None) -> int:
        """Return the number of checked models."""
        return sum(
            _is_linted(model) and (among is None or name in among)
            for name, model in self._models.items()
        )

    # -- rules -----------------------------------------------------------------------------

    @cached_property
    def _rule_files(self) -> dict[str, str]:
        from vde_dagster.project.python.files import with_local_imports

        files: dict[str, str] = {}
        root = self._settings.root
        for path in linter_files(self._settings):
            text = decode_text(Path(path), (root / path).read_bytes())
            files |= with_local_imports(root, path, text)
        return files

    @cached_property
    def _project_rules_key(self) -> str:
        return digest(
            "rules", *(part for item in sorted(self._rule_files.items()) for part in item)
        )

    @cached_property
    def _project_rules(self) -> dict[str, tuple[type[Rule], str]]:
        # A rule of the project may replace a built-in rule.
        from vde_dagster.project.python.files import run_file

        found: dict[str, tuple[type[Rule], str]] = {}
        mistakes: list[ProjectError] = []
        for path in linter_files(self._settings):
            try:
                module, _, _ = run_file(self._settings.root, path, self._rule_files[path])
            except ProjectError as error:
                mistakes.append(error)
                continue
            for value in vars(module).values():
                rule = isinstance(value, type) and issubclass(value, Rule) and value is not Rule
                # Skip rules imported from other files.
                if rule and value.__module__ == module.__name__:
                    found[value.name] = (value, path)
        if mistakes:
            raise ProjectError.combine(mistakes)
        return found

    @cached_property
    def _rule_names(self) -> frozenset[str]:
        return frozenset((*RULES, *self._project_rules))

    def _chosen_rules(self) -> tuple[frozenset[str], frozenset[str]]:
        linter = self._settings.linter
        if self._only:
            return frozenset(), self._check_names(self._only, "--rule")
        ignored = self._check_names(linter.ignored_rules, "linter.ignored_rules")
        errors = self._check_names(linter.rules, "linter.rules") - ignored
        warnings = self._check_names(linter.warn_rules, "linter.warn_rules") - ignored
        both = sorted(errors & warnings)
        if both:
            raise ProjectError(
                f"linter rules are both in rules and in warn_rules: {', '.join(both)}",
                hint="remove them from one of the two",
                location=self._settings_file,
            )
        return errors, warnings

    def _check_names(self, names: Collection[str], where: str) -> frozenset[str]:
        lowered = {name.lower() for name in names}
        if ALL in lowered:
            return self._rule_names
        for name in sorted(lowered - self._rule_names):
            raise ProjectError(
                f"{where} names '{name}', which is not a rule of the linter",
                hint=suggest(name, [*sorted(self._rule_names), ALL], "rules"),
                location=None if self._only else self._settings_file,
            )
        return frozenset(lowered)

    @property
    def _settings_file(self) -> SourceLocation:
        pyproject = self._settings.root / "pyproject.toml"
        here = pyproject.is_file() and "linter" in pyproject.read_text("utf-8", "replace")
        name = "pyproject.toml" if here else self._settings.config_file or "pyproject.toml"
        return SourceLocation(Path(name))

    def _ignored_rules(self, model: Model) -> frozenset[str]:
        if ALL in model.ignored_rules:
            return self._rule_names
        for name in model.ignored_rules:
            if name not in self._rule_names:
                raise ProjectError(
                    f"property 'ignored_rules' of {model.name} names '{name}', which is not a rule "
                    "of the linter",
                    hint=suggest(name, [*sorted(self._rule_names), ALL], "rules"),
                    location=place_in_header(model, "ignored_rules"),
                )
        return frozenset(model.ignored_rules)

    # -- checking --------------------------------------------------------------------------

    def _cache_key(self, linted: ModelView) -> str:
        parents = [
            text
            for name, parent in linted.parents.items()
            for text in (str(name), parent.model.kind.name, parent.model.cron, str(parent.columns))
        ]
        texts = (linted.snapshot.id, *definition_texts(linted.snapshot.model), str(linted.tested))
        undeclared = map(str, linted.undeclared)
        return digest(
            "lint", LINT_VERSION, self._project_rules_key, *texts, "|", *undeclared, "|", *parents
        )

    def _run_rule(
        self, rule: str, linted: ModelView, context: ContextView
    ) -> tuple[tuple[Violation, ...], bool]:
        if rule not in self._project_rules:
            return tuple(RULES[rule](linted)), True

        made, path = self._project_rules[rule]
        before, model = context.uses, linted.snapshot.model
        try:
            violations = made(context).check_model(linted)
        except ProjectError:
            raise
        except (Exception, SystemExit) as error:
            raise ProjectError(
                f"rule {rule} fails for {model.name}: {describe_exception(error)}",
                hint="correct the rule",
                location=find_project_line(error, Path(path)),
            ) from error
        given: list[Any] = (
            []
            if violations is None
            else list(violations)
            if isinstance(violations, list | tuple)
            else [violations]
        )
        for one in given:
            if not isinstance(one, RuleViolation):
                raise ProjectError(
                    f"rule {rule} returns a {type(one).__name__}",
                    hint="return self.violation('…'), a list of violations, or None",
                    location=SourceLocation(Path(path)),
                )
        found = (
            convert_violation(one, f"{model.name}: {one.violation_msg}", model) for one in given
        )
        return tuple(found), context.uses == before


def reader_findings(
    readers: Iterable[Exposure],
    snapshots: Mapping[ModelName, Snapshot],
    among: Collection[ModelName] | None = None,
) -> list[Finding]:
    """Return a finding for each column that an exposure reads, but that its model does not have."""
    found = []
    for reader, model, problem in find_unknown_columns(readers, snapshots):
        if among is None or model in among:
            violations = Violation(problem.message, problem.location, problem.fixes)
            found.append(Finding(model, f"{reader.what}_columns", problem.certain, violations))
    return found


def lint_problems(
    linter: Linter, snapshots: Mapping[ModelName, Snapshot], warnings: list[Problem]
) -> Iterator[ProjectError]:
    """Yield the linter's errors, and append its warnings to `warnings`."""
    for finding in linter.findings(snapshots):
        if finding.certain:
            yield finding.problem.error()
        else:
            warnings.append(finding.problem)


def _is_linted(model: Model) -> bool:
    return model.kind.is_read and not model.kind.is_external
