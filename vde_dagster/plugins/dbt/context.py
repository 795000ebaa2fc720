"""Values that the conversion of all nodes of a dbt project needs: settings, names, dialect."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vde_dagster.api.errors import SourceLocation
from vde_dagster.api.sources import Folder, TableNames
from vde_dagster.api.sql import Expanded, SourceText
from vde_dagster.api.values import ModelName, Settings
from vde_dagster.plugins.dbt.compiling import PACKAGES


@dataclass(frozen=True, slots=True)
class Context:
    """Values that the conversion of all nodes needs.

    Args:
        project: The project's folder during this load.
        folder: The dbt project's folder, relative to the root.
        package: The dbt project's name.
        dialect: SQLGlot dialect of compiled code.
        grants: Whether GRANT and REVOKE statements run.
    """

    project: Folder
    names: TableNames
    folder: Path
    package: str
    adapter: str
    dialect: str
    grants: bool = False

    @property
    def settings(self) -> Settings:
        return self.project.settings

    def render(
        self, source: SourceText, code: Expanded, what: str = "query"
    ) -> tuple[str, dict[ModelName, SourceLocation]]:
        """Translate compiled code to Spark SQL, and return the SQL with the tables that it reads.

        Args:
            what: The code's name in errors.

        Raises:
            ProjectError: The code is not a query, or cannot be translated.
        """
        rendered = self.project.render(
            source, self.names, code=code, dialect=self.dialect, what=what, hint=_translation_hint
        )
        return rendered.sql, dict(rendered.reads)

    def file(self, package: str, path: str) -> Path:
        below = Path() if package == self.package else Path(PACKAGES, package)
        return self.folder / below / path


def _translation_hint(function: str | None) -> str:
    hint = "write it in SQL that Spark also accepts, or leave it out: config(enabled=false)"
    if function is not None:
        hint += f'; or trust the function: dialect_trust = ["{function}"] under [tool.vde]'
    return hint
