"""The context of macro calls: the scope of the calling text, and a protocol for the expansion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from vde_dagster.project.macros.variables import EVALUATING, STAGE
from vde_dagster.sql.scanner import BACKSLASH_DIALECTS, SourceText, Token

if TYPE_CHECKING:
    from vde_dagster.base.names import ModelName
    from vde_dagster.errors import ProjectError, Unknown
    from vde_dagster.project.macros.known_columns import KnownColumns
    from vde_dagster.project.table_names import TableNames

UserMacro = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class MacroFunction:
    """A function `x -> body` in a macro's argument."""

    names: tuple[str, ...]
    body: str


@dataclass(slots=True)
class MacroScope:
    """The macros and variables that a query can use, by lower-case name.

    Args:
        variables: SQL text of `@name`.
        dialect_trust: Functions of the dialect that are assumed to be equal on Spark.
        functions: Macros defined by `@DEF(f, x -> …)`.
        settings: Values that `evaluator.var('name')` returns.
        templates: Texts of files with Jinja macros, by path.
        environment: The environment's name and views, for `before_all` and `after_all`.
        model: Model that the text belongs to, if any.
        hint: Returns the hint for a text that cannot be translated to Spark SQL. Its argument is
            the function to add to the setting `dialect_trust`, or None. Without `hint`, errors have
            the hint for model files.
    """

    macros: Mapping[str, UserMacro]
    variables: dict[str, str]
    dialect: str = "spark"
    dialect_trust: frozenset[str] = frozenset()
    functions: dict[str, MacroFunction] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    names: TableNames | None = None
    known_columns: KnownColumns | None = None
    templates: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    model: ModelName | None = None
    hint: Callable[[str | None], str] | None = None

    @property
    def backslash(self) -> bool:
        """Whether a backslash is the escape character in strings of the dialect."""
        return self.dialect in BACKSLASH_DIALECTS

    @property
    def stage(self) -> str:
        """The stage that uses the text, such as `evaluating`."""
        return self.variables.get(STAGE, EVALUATING).strip("'")

    def in_stage(self, stage: str) -> MacroScope:
        """Return a copy of the scope for another stage, such as `auditing`."""
        return replace(self, variables={**self.variables, STAGE: f"'{stage}'"})


class MacroContext(Protocol):
    """Methods that a macro uses to expand texts of the file that calls the macro.

    Args:
        is_condition: Whether unset variables are NULL, as in a condition.
        is_not_for_loading: Whether calls of the project's Python macros are refused.
    """

    source: SourceText
    scope: MacroScope
    is_condition: bool
    is_not_for_loading: bool

    def expand_text(self, text: str) -> str:
        """Expand macros in a macro's argument or result.

        Raises:
            ProjectError: The text, or the total of all expanded texts, is too long.
        """

    def error(
        self, message: str, hint: str | None = None, *, unknown: Unknown | None = None
    ) -> ProjectError:
        """Return an error with the place of the macro call that is being expanded."""

    def tokens(self, text: str) -> list[Token]:
        """Scan a text of this file's dialect, without comments."""

    def split_arguments(self, text: str) -> list[str]:
        """Split a call's arguments at top-level commas."""

    def is_true(self, condition: str) -> bool:
        """Return whether a macro's condition is true; unset variables are NULL."""

    def is_constant_true(self, condition: str) -> bool:
        """Return whether an expression without columns is true; NULL and "" count as false."""

    def constant(self, text: str, what: str = "expression") -> Any:
        """Evaluate an expression without columns, such as `1 + 1`."""

    def is_defined(self, name: str) -> bool:
        """Return whether a variable has a value, now or at run time."""

    def variable(self, name: str) -> str:
        """Return a variable's SQL text, or its placeholder if it is known only at run time."""

    def macro(self, name: str) -> UserMacro | None:
        """Find a Python macro of the project or of a plug-in, or return None.

        Raises:
            ProjectError: The plug-in cannot be imported, or two distributions define the macro.
        """

    def bound(self, values: Mapping[str, str]) -> AbstractContextManager[None]:
        """Set variables while the block runs."""
