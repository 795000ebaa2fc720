"""Problems of a pull request, as remarks on lines: mistakes, failed unit tests and audits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from vde_dagster.api.errors import ExecutionError, ProjectError, SourceLocation, VdeError
from vde_dagster.api.values import count
from vde_dagster.api.workspace import AuditFinished, UnitTestFinished
from vde_dagster.plugins.ci.forges.forge import Annotation

Level = Literal["failure", "warning"]


@dataclass
class Findings:
    """Collects the problems of a pull request, without duplicates, in the order of detection.

    Args:
        prefix: The project's folder in the repository, empty or with `/` at its end.
        errors: Problems without a line.
    """

    prefix: str
    errors: list[str] = field(default_factory=list)
    _found: dict[tuple[str, str], Annotation] = field(default_factory=dict)

    @property
    def annotations(self) -> list[Annotation]:
        """Problems with a line, failures before warnings."""
        return sorted(self._found.values(), key=lambda one: one.level != "failure")

    @property
    def has_failures(self) -> bool:
        return bool(self.errors) or any(one.level == "failure" for one in self.annotations)

    def record(self, event: object) -> None:
        """Record a failed unit test or audit; ignore other events."""
        if isinstance(event, UnitTestFinished) and not event.result.passed:
            test = event.result.test
            title = f"unit test {test.name} of {test.model}"
            self._add(f"test {test.model} {test.name}", test.location, title, event.result.summary)
        elif isinstance(event, AuditFinished) and event.result.failed_rows:
            model, audit = event.snapshot.model, event.audit
            self._add_audit(
                str(model.name),
                audit.label,
                event.place,
                event.result.failed_rows,
                "failure" if audit.blocking else "warning",
            )

    def record_error(self, error: VdeError) -> None:
        """Record an error that ended the check, with the place of each mistake or failed model."""
        if isinstance(error, ProjectError):
            for one in error.mistakes:
                self._add_mistake(one)
            return
        failures = error.failures if isinstance(error, ExecutionError) else ()
        for failure in failures:
            at = failure.location
            for audit in failure.audits:
                self._add_audit(str(failure.model), audit.audit, at, audit.rows, "failure")
            if not failure.audits:
                message = f"{failure.message} ({failure.hint})" if failure.hint else failure.message
                self._add(f"model {failure.model}", at, str(failure.model), message)
        if not failures and not self.has_failures:
            self._add_mistake(error)

    def _add_mistake(self, error: VdeError) -> None:
        hint = f" ({error.hint})" if error.hint else ""
        message = f"{error.message}{hint}"
        self._add(str(error), error.location, "mistake", message)

    def _add_audit(
        self, model: str, label: str, at: SourceLocation | None, rows: int, level: Level
    ) -> None:
        key = f"audit {model} {label}"
        if (key, level) not in self._found:
            self._add(key, at, f"audit {label} of {model}", f"{count(rows, 'row')} failed", level)

    def _add(
        self,
        key: str,
        at: SourceLocation | None,
        title: str,
        message: str,
        level: Level = "failure",
    ) -> None:
        if at is None or at.path.is_absolute() or ".." in at.path.parts:
            text = f"{title}: {message}"
            if text not in self.errors:
                self.errors.append(text)
            return
        path = f"{self.prefix}{at.path.as_posix()}"
        self._found.setdefault((key, level), Annotation(path, at.line or 1, title, message, level))
