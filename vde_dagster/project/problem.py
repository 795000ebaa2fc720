"""A mistake in a project, or what looks like one, as a value that can be kept and shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.settings import Settings


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a project's files that its author should look at.

    Args:
        message: What is wrong, in one sentence.
        hint: What to do next.
        certain: Whether it cannot be meant so; otherwise it is a warning, which stops nothing.
    """

    message: str
    hint: str | None
    location: SourceLocation
    certain: bool = True

    def __str__(self) -> str:
        return str(self.error())

    def error(self) -> ProjectError:
        """Return the error of a certain mistake."""
        return ProjectError(self.message, hint=self.hint, location=self.location)


def config_warnings(settings: Settings) -> tuple[Problem, ...]:
    """Return the warnings on a SQLMesh project's configuration, and on files that are not read."""
    location = SourceLocation(Path(settings.config_file))
    hint = "docs/sqlmesh.md has what each key is here"
    found = [Problem(text, hint, location, False) for text in settings.config_warnings]
    if settings.config_file:
        found += _metrics(settings.root)
    return tuple(found)


def _metrics(root: Path) -> list[Problem]:
    files = sorted((root / "metrics").glob("**/*.sql"))
    if not files:
        return []
    message = f"metrics are not read ({len(files)} file{'s' if files[1:] else ''} in metrics/)"
    location = SourceLocation(files[0].relative_to(root))
    return [Problem(message, "write them as models", location, False)]
