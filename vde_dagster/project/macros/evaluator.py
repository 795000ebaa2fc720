"""The evaluator, the first argument of every Python macro."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from sqlglot import exp
from sqlglot.errors import SqlglotError

from vde_dagster.base.texts import suggest
from vde_dagster.errors import ProjectError, Unknown
from vde_dagster.project.macros.relation_columns import relation_columns
from vde_dagster.project.macros.templates import filled
from vde_dagster.project.macros.variables import KIND_NAME, STAGE, TIME_VARIABLES, bare
from vde_dagster.sql.expressions import add_brackets
from vde_dagster.sql.other_dialects.writing import query_sql, restore_parameters, with_variables
from vde_dagster.sql.trees import plain_dialect

if TYPE_CHECKING:
    from vde_dagster.project.macros.scope import MacroContext


_NONE_GIVEN = object()
_NONE_WRITTEN = re.compile(r"\bNone\b")
_ONCE = "macros run once, when the project is read, and write the SQL that runs"
_LOADING = "loading"
_UNKNOWN = {
    "engine_adapter": "there is no engine yet",
    **dict.fromkeys(("snapshots", "get_snapshot"), "there are no snapshots yet"),
}
"""Attributes of SQLMesh's evaluator that are not available here, with reasons."""


class _Stage(str):
    """Name of a stage, such as `evaluating`; comparing it with `loading` raises an error."""

    _expander: MacroContext
    __hash__ = str.__hash__

    def __new__(cls, expander: MacroContext) -> _Stage:
        stage = super().__new__(cls, expander.scope.stage)
        stage._expander = expander
        return stage

    def __eq__(self, other: object) -> bool:
        if str.__eq__(_LOADING, other) is True:
            raise loading_stage_error(self._expander, "the macro")
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def loading_stage_error(expander: MacroContext, who: str) -> ProjectError:
    """Create the error for code, named `who`, that compares the stage with `loading`."""
    return expander.error(
        f"{who} compares {STAGE} with '{_LOADING}': {_ONCE}",
        "remove the comparison if the code may run while the project is read; move warehouse "
        "queries and notifications to a Python model or a statement",
    )


class MacroEvaluator:
    """The first argument of a Python macro, with the variables and helpers of its call."""

    def __init__(self, expander: MacroContext) -> None:
        self._expander = expander
        self._unset = ""

    @property
    def dialect(self) -> str:
        """SQLGlot dialect of the query that calls the macro."""
        return self._expander.scope.dialect

    @property
    def runtime_stage(self) -> str:
        """Stage that uses the macro's text, such as `evaluating` or `auditing`.

        The stages are `evaluating` (queries and the statements around them), `promoting`
        (statements on virtual update), `auditing` (audits), `testing` (unit tests), `before_all`
        and `after_all` (statements in the settings with these names). Comparing the stage with
        `loading` raises an error.
        """
        return _Stage(self._expander)

    @property
    def gateway(self) -> str | None:
        """Name of the default gateway in a SQLMesh configuration, or None."""
        found = self._expander.scope.settings.get("gateway")
        return None if found is None else str(found)

    @property
    def default_catalog(self) -> str | None:
        """Name of the project's catalog, or None."""
        names = self._expander.scope.names
        return names.catalog if names is not None else None

    @property
    def this_env(self) -> str:
        """Name of the environment, available only in `before_all` and `after_all`."""
        return str(self._environment_value("this_env"))

    @property
    def schemas(self) -> list[str]:
        """Schemas of the environment's views, available only in `before_all` and `after_all`."""
        return list(self._environment_value("schemas"))

    @property
    def views(self) -> list[str]:
        """Views, such as `catalog.schema.name`, available only in `before_all` and `after_all`."""
        return list(self._environment_value("views"))

    def _environment_value(self, name: str) -> Any:
        known = self._expander.scope.environment
        if name not in known:
            raise self._expander.error(
                f"evaluator.{name} is available only in before_all and after_all",
                "do not use it in models: a model is the same in every environment",
            )
        return known[name]

    @property
    def this_model(self) -> str:
        """The text `@this_model`, which becomes the model's table when the query runs."""
        return "@this_model"

    @property
    def this_model_fqn(self) -> str:
        """Quoted name of the model. It raises an error if the text does not belong to a model."""
        model = self._expander.scope.model
        if model is None:
            raise self._expander.error("the macro uses this_model_fqn, but no model calls it")
        return f'"{model.namespace}"."{model.name}"'

    @property
    def macros(self) -> Mapping[str, Any]:
        """Python macros of the project, by lower-case name."""
        return self._expander.scope.macros

    @property
    def locals(self) -> Mapping[str, Any]:
        """Variables in scope, by name.

        Variables of the settings and of a blueprint are SQL text; variables of `@DEF` and the run's
        times are expressions; `runtime_stage`, `gateway`, `default_catalog` and `model_kind_name`
        are plain texts. To look up a variable, a macro may also use a SQLGlot literal as the key.
        """
        scope = self._expander.scope
        found = _Locals(
            (name, exp.Parameter(this=exp.Var(this=name)))
            for name in sorted({*TIME_VARIABLES, "this_model"})
        )
        for name, text in scope.variables.items():
            found[name] = text if name in scope.settings else self._expression_or_text(text)
        plain = ("runtime_stage", "gateway", "default_catalog")
        found.update({name: getattr(self, name) for name in plain})
        if KIND_NAME in scope.variables:
            found[KIND_NAME] = bare(scope.variables[KIND_NAME])
        return found

    def var(self, name: str, default: Any = _NONE_GIVEN) -> Any:
        """Return a variable of the settings, or `default` (None if omitted) if it is not set."""
        settings = self._expander.scope.settings
        if name.lower() in settings or default is not _NONE_GIVEN:
            return settings.get(name.lower(), default)
        self._unset = name
        return None

    def checked(self, result: Any) -> Any:
        """Return a macro's result; raise an error if it contains `None` from an unset variable."""
        parts = result if isinstance(result, list | tuple) else [result]
        if self._unset and any(_NONE_WRITTEN.search(str(one)) for one in parts if one is not None):
            raise self._expander.error(
                f"the macro uses the unknown variable '{self._unset}'",
                f"set it under [tool.vde.variables], or add a default: var('{self._unset}', 0)",
                unknown=Unknown("variable", self._unset),
            )
        return result

    def blueprint_var(self, name: str, default: Any = None) -> Any:
        """Return a variable of the model's blueprint, or the default."""
        return self._expander.scope.settings.get(name.lower(), default)

    def columns_to_types(self, model_name: Any) -> dict[str, exp.DataType]:
        """Return the types of a model's columns; types that are not declared are UNKNOWN."""
        text = model_name.sql() if isinstance(model_name, exp.Expr) else str(model_name)
        return {
            name: exp.DataType.build(type_ or "unknown", dialect="spark")
            for name, type_ in relation_columns(self._expander, text).items()
        }

    def error(self, message: str, hint: str | None = None) -> ProjectError:
        """Create an error that points at the macro's call, for the macro to raise."""
        return self._expander.error(message, hint)

    def parse_one(self, sql: str | exp.Expr, into: Any = None, **options: Any) -> exp.Expr:
        """Parse SQL of the query's dialect; an expression is returned unchanged."""
        from vde_dagster.sql.reading import parse_plain

        if isinstance(sql, exp.Expr):
            return sql
        return parse_plain(sql, plain_dialect(self.dialect), into, **options)

    def bracketed(self, text: str) -> str:
        """Put brackets around an SQL expression that consists of an operator and operands."""
        return add_brackets(text, self.dialect)

    def transform(self, expression: exp.Expr) -> exp.Expr | None:
        """Expand macros and variables in an expression; return None if nothing remains."""
        text = self._expander.expand_text(self._text(expression))
        return self._expression(text) if text.strip() else None

    evaluate = transform

    def send(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Call another Python macro, of the project or of a plug-in."""
        found = self._expander.macro(name)
        if found is None:
            hint = suggest(name, self.macros, "macros")
            raise self._expander.error(f"unknown macro '{name}'", hint)
        return found(self, *arguments, **named)

    def eval_expression(self, node: Any) -> Any:
        """Return the Python value of a constant expression, and other values unchanged."""
        if not isinstance(node, exp.Expr):
            return node
        return self._expander.constant(self._expander.expand_text(self._text(node)))

    def template(self, text: Any, local_variables: Mapping[str, Any] | None = None) -> str:
        """Replace the variables `@name` and `@{name}` in a text."""
        given = {
            key.lower(): str(value.name if isinstance(value, exp.Expr) else value)
            for key, value in (local_variables or {}).items()
        }
        with self._expander.bound(given):
            return filled(self._expander, str(text))

    def resolve_table(self, table: str | exp.Expr) -> str:
        """Return a model's name, for use in a macro's result."""
        return table if isinstance(table, str) else self._text(table)

    def resolve_tables(self, query: exp.Expr) -> exp.Expr:
        """Return a query unchanged: its model names already refer to the environment's tables."""
        return query

    def __getattr__(self, name: str) -> NoReturn:
        if name in _UNKNOWN:
            raise self._expander.error(
                f"evaluator.{name} is not available in a macro: {_UNKNOWN[name]}",
                f"{_ONCE}; get columns from columns_to_types, or write a Python model",
            )
        raise AttributeError(f"the evaluator has no attribute '{name}'")

    def _text(self, tree: exp.Expr) -> str:
        if self.dialect == "spark":
            return query_sql(tree)
        return with_variables(tree).sql(dialect=self.dialect, comments=False)

    def _expression(self, text: str) -> exp.Expr:
        return restore_parameters(self.parse_one(text))

    def _expression_or_text(self, text: str) -> exp.Expr | str:
        try:
            return self._expression(text)
        except SqlglotError:  # Such as a list, or a part of a clause.
            return text


class _Locals(dict[str, Any]):
    """Variables by name. A variable can also be looked up by a SQLGlot literal with its name."""

    def __missing__(self, key: object) -> Any:
        name = getattr(key, "name", None)
        if isinstance(name, str) and name in self:
            return self[name]
        raise KeyError(key)
