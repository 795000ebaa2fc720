"""What a Python macro gets as its first argument."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vde_dagster.errors import Unknown
from vde_dagster.project.macros.missing_variables import does_without
from vde_dagster.sql.dialects import untranslated

if TYPE_CHECKING:
    from sqlglot import exp

    from vde_dagster.project.macros.expansion import Expander

_NONE_GIVEN = object()


class MacroEvaluator:
    """What a Python macro gets as its first argument.

    Args:
        expander: The expansion that is going on.
    """

    def __init__(self, expander: Expander) -> None:
        self._expander = expander

    @property
    def dialect(self) -> str:
        """SQLGlot dialect of the query that calls the macro."""
        return self._expander.scope.dialect

    def var(self, name: str, default: Any = _NONE_GIVEN) -> Any:
        """Return a variable of the settings, or the default; None without one.

        Raises:
            ProjectError: Nobody sets it, and the macro would make it a part of a text.
        """
        settings = self._expander.scope.settings
        if name.lower() in settings or default is not _NONE_GIVEN:
            return settings.get(name.lower(), default)
        if not does_without(sys._getframe(1)):
            raise self._expander.error(
                f"unknown variable '{name}', which the macro asks for",
                f"set it under [tool.vde.variables], or give a default: var('{name}', 0)",
                unknown=Unknown("variable", name),
            )
        return None

    def blueprint_var(self, name: str, default: Any = None) -> Any:
        """Return a variable of the model's blueprint, or the default."""
        return self._expander.scope.settings.get(name.lower(), default)

    @property
    def this_env(self) -> str:
        """The environment's name, in `before_all` and `after_all`.

        Raises:
            ProjectError: The macro is called elsewhere, as of the next two.
        """
        return str(self._of_environment("this_env"))

    @property
    def schemas(self) -> list[str]:
        """The schemas of the environment's views."""
        return list(self._of_environment("schemas"))

    @property
    def views(self) -> list[str]:
        """The environment's views, as `catalog.schema.name`."""
        return list(self._of_environment("views"))

    def _of_environment(self, name: str) -> Any:
        known = self._expander.scope.environment
        if name not in known:
            raise self._expander.error(
                f"evaluator.{name} is known only in before_all and after_all",
                "a model means the same in every environment",
            )
        return known[name]

    @property
    def locals(self) -> Mapping[str, str]:
        """SQL text of the variables in reach, by name."""
        return dict(self._expander.scope.variables)

    def columns_to_types(self, model_name: Any) -> dict[str, exp.DataType]:
        """Return the columns of a model, with the types that are declared.

        Raises:
            ProjectError: The files do not tell them.
        """
        from sqlglot import exp

        from vde_dagster.project.macros.relation_columns import columns_of

        text = model_name.sql() if isinstance(model_name, exp.Expr) else str(model_name)
        return {
            name: exp.DataType.build(type_ or "unknown", dialect="spark")
            for name, type_ in columns_of(self._expander, text).items()
        }

    def parse_one(self, sql: str) -> exp.Expr:
        """Parse SQL of the query's dialect."""
        from sqlglot import parse_one

        return parse_one(sql, dialect=untranslated(self.dialect))
