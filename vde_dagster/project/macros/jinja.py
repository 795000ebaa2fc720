"""Jinja templates in SQL files, rendered with the origin of every piece of the result.

`'{{ start_ds }}'` becomes the variable `@start_ds`; `'day={{ start_ds }}'` becomes an expression
that concatenates the text and the variable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial, wraps
from pathlib import Path
from traceback import walk_tb
from types import CodeType
from typing import Any, NoReturn

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from sqlglot import exp

from vde_dagster.base.texts import closest, did_you_mean
from vde_dagster.errors import ProjectError, SourceLocation, Unknown
from vde_dagster.project.macros.evaluator import MacroEvaluator
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.macros.variables import AS_TEXT, NUMBERS, STAGE, TIME_VARIABLES
from vde_dagster.project.sandbox import OWN_FILTERS, LimitExceededError, Sandbox, copied
from vde_dagster.sql.edits import Edit, Expanded, ExpandedSource, apply_edits
from vde_dagster.sql.scanner import SourceText, Token, scan
from vde_dagster.sql.trees import placeholder

_HERE = "<jinja here>"
_EXTENSIONS = ("jinja2.ext.do", "jinja2.ext.loopcontrols")
_PRINTING = frozenset({"string", "trim", "default", "d", "safe", "forceescape", "e", "escape"})
"""Filters that may be applied to a value that is not known yet."""
_MARK = re.compile("\ue000(\\d+)\ue001")
_FIRST_OF_LINE = re.compile(r"(?:(?<=\n)|\A)[^\S\n]*(?=\S)")


def render_block(expander: Expander, start: int, end: int) -> list[Expanded]:
    """Render a Jinja block, and expand the macros in the resulting SQL."""
    source, scope = expander.source, expander.scope
    text = _file_templates(expander).render(source, start, end)
    rendered = ExpandedSource(source.path, text.text, source, text)
    text = _insert_placeholders(text, rendered, backslash=scope.backslash)
    inner = Expander(ExpandedSource(source.path, text.text, source, text), scope)
    return [one.through(text) for one in inner.statements(0, len(text.text))]


def _file_templates(expander: Expander) -> Templates:
    scope = expander.scope
    evaluator = MacroEvaluator(expander)
    names: dict[str, Any] = {name: TimeValue(name) for name in (*TIME_VARIABLES, _THIS_MODEL)}
    names |= {name: partial(macro, evaluator) for name, macro in scope.macros.items()}
    names[STAGE] = scope.stage
    names |= {name: copied(value) for name, value in scope.environment.items()}
    names["gateway"] = lambda: scope.settings.get("gateway")

    def var(name: str, *default: Any, **named: Any) -> Any:
        for value in (scope.settings.get(name.lower()), *default, named.get("default")):
            if value is not None:
                return copied(value)
        given = default or "default" in named
        return None if given else templates.missing(f"var {name}")

    def printed(value: Any) -> Any:
        evaluator.checked(value)
        return value.sql(dialect=scope.dialect) if isinstance(value, exp.Expr) else value

    names["var"] = names["blueprint_var"] = var
    templates = Templates(scope.templates, names, printed)
    return templates


class _Missing(StrictUndefined):
    """Undefined name. A template can test whether it is defined, but cannot print it."""

    __slots__ = ()

    def __bool__(self) -> bool:  # type: ignore[override]
        return False


class Templates:
    """The Jinja templates of one file, with the macros and variables that they may use.

    Args:
        macros: Texts of files with Jinja macros, by path.
        finalize: Converts a value to its printed form.
    """

    def __init__(
        self,
        macros: Mapping[str, str],
        names: Mapping[str, Any],
        finalize: Callable[[Any], Any] | None,
    ) -> None:
        self._make_environment = _make_environment(finalize)
        self._files = {f"<jinja {path}>": SourceText(Path(path), macros[path]) for path in macros}
        self._make_environment.globals.update(names)
        contexts = [self._run_definitions(file, source) for file, source in self._files.items()]
        for context in contexts:
            self._make_environment.globals.update(context.vars)
        for context in contexts:  # Macros of one file may call macros of another.
            context.parent.update(self._make_environment.globals)

    def missing(self, name: str) -> Any:
        """Return a placeholder for an unset variable, which raises an error when it is printed."""
        return self._make_environment.undefined(name=name)

    def render(self, source: SourceText, start: int, end: int) -> Expanded:
        """Render a part of a file, and record where each line comes from."""
        text = source.text[start:end]
        rendered = self._render_text(source, start, text)
        marked = _insert_offsets(self._make_environment, text, start)
        if marked is not None:
            try:
                places = self._render_text(source, start, marked)
            except ProjectError:  # The marks changed a comparison of texts.
                places = ""
            before, *parts = _MARK.split(places)
            if "".join([before, *parts[1::2]]) == rendered:
                marks = (~int(offset) for offset in parts[::2])
                return Expanded.build([(before, ~start), *zip(parts[1::2], marks, strict=True)])
        return Expanded(rendered, ((0, ~start),))

    def _render_text(self, source: SourceText, start: int, text: str) -> str:
        try:
            return self._template(text, _HERE).render()
        except RecursionError:
            raise source.error("the template calls itself endlessly", start) from None
        except ProjectError:
            raise
        except Exception as error:
            first = source.text.count("\n", 0, start)
            raise self._located_error(error, {_HERE: (source, first)}) from error

    def _template(self, text: str, file: str) -> Template:
        code = _compile(text, file)
        return Template.from_code(self._make_environment, code, self._make_environment.globals)

    def _run_definitions(self, file: str, source: SourceText) -> Context:
        try:
            template = self._template(source.text, file)
            context = template.new_context()
            try:
                for _ in template.root_render_func(context):
                    pass
            except Exception:
                self._make_environment.handle_exception()
        except ProjectError:
            raise
        except Exception as error:
            raise self._located_error(error, {}) from error
        return context

    def _located_error(
        self, error: Exception, files: Mapping[str, tuple[SourceText, int]]
    ) -> ProjectError:
        known = {name: (source, 0) for name, source in self._files.items()} | dict(files)
        lines = [(frame.f_code.co_filename, n) for frame, n in walk_tb(error.__traceback__)]
        if isinstance(error, TemplateSyntaxError):
            lines.append((str(error.filename), error.lineno))
        places = [
            SourceLocation(known[name][0].path, known[name][1] + line)
            for name, line in lines
            if name in known
        ]
        return _template_error(
            error, places[-1] if places else None, [*self._make_environment.globals]
        )


def broken_macros(macros: Mapping[str, str]) -> dict[str, ProjectError]:
    """Return the errors in files of Jinja macros, by path."""
    found: dict[str, ProjectError] = {}
    for path, text in macros.items():
        try:
            Templates({path: text}, {}, None)
        except ProjectError as error:
            found[path] = error
    return found


def _template_error(
    error: Exception, location: SourceLocation | None, names: list[str]
) -> ProjectError:
    message = str(error).splitlines()[0] if str(error) else type(error).__name__
    hint: str | None
    missed = re.match(r"'(var )?(.*?)' is undefined", message)
    if missed is not None and missed[1]:
        name = missed[2]
        message = f"Jinja: unknown variable '{name}'"
        hint = f"set it under [tool.vde.variables], or add a default: {{{{ var('{name}', 0) }}}}"
        unknown = Unknown("variable", name)
    elif missed is not None:
        name = missed[2]
        near = closest(name, names)
        message = f"Jinja: unknown name '{name}'"
        hint = did_you_mean(name, near) if near else _HINTS.get(name, _HINT)
        unknown = Unknown("macro", name)
    else:
        hint = next((hint for kind, hint in _HINTS_BY_ERROR if isinstance(error, kind)), None)
        unknown = None
        if isinstance(error, TemplateError | UnknownUntilRun):
            message = f"Jinja: {message}"
        else:
            message = f"Jinja failed: {type(error).__name__}: {message}"
    return ProjectError(message, hint=hint, location=location, unknown=unknown)


_PRINT_ONLY = "print it in a string, or use SQL's functions"
_HINT = "define it: {% set x = … %}, a macro in macros/*.sql, or a variable: {{ var('x') }}"
_HINTS = dict.fromkeys(
    ("ref", "source", "config"), "write the table's name: only dbt has ref, source and config"
)


def _make_environment(finalize: Callable[[Any], Any] | None = None) -> Sandbox:
    environment = Sandbox(
        extensions=_EXTENSIONS, undefined=_Missing, autoescape=False, finalize=finalize
    )
    environment.filters = {
        name: function
        if name in _PRINTING or name in OWN_FILTERS
        else _refuse_time_variables(function)
        for name, function in environment.filters.items()
    }
    return environment


def _refuse_time_variables(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a filter refuse time variables, which are known only when the query runs."""

    @wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        if any(
            isinstance(one, TimeValue) or (isinstance(one, str) and _PRINTED.search(one))
            for one in arguments
        ):
            raise UnknownUntilRun("a time variable is known only when the query runs")
        return function(*arguments, **named)

    return checked


@lru_cache(maxsize=512)
def _compile(text: str, file: str) -> CodeType:
    return _make_environment().compile(text, file, file)


def _insert_offsets(environment: Sandbox, text: str, start: int) -> str | None:
    """Mark each line of text outside of Jinja tags with its offset; return None on failure."""
    edits: list[Edit] = []
    position = 0
    for _, kind, value in environment.lex(text):
        at = text.find(value, position)
        if at < 0:
            return None
        if kind == "data":
            places = (at + found.end() for found in _FIRST_OF_LINE.finditer(value))
            edits += [Edit(place, place, f"\ue000{start + place}\ue001") for place in places]
        position = at + len(value)
    return apply_edits(text, edits)


_THIS_MODEL = "this_model"
_PRINTED = re.compile("\ue010(\\w+)\ue011")
_PLAIN = (*NUMBERS, "model")
"""Endings of variables that need no quotes around `{{ … }}`: numbers, and `this_model`."""
_TYPES = {"DATE": "DATE", "TIMESTAMP": "TIMESTAMP", "DATETIME": "TIMESTAMP"}


class UnknownUntilRun(Exception):
    """A template computes with a time variable, which has a value only at run time."""


_HINTS_BY_ERROR: tuple[tuple[type[Exception], str], ...] = (
    (UnknownUntilRun, _PRINT_ONLY),
    (SecurityError, "templates are data and cannot use Python; write a macro in macros/*.py"),
    (LimitExceededError, "shorten the template, or write a macro in macros/*.py"),
)


class TimeValue:
    """A time variable in a template, such as `start_ds`. Its value is known only at run time."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __str__(self) -> str:
        return f"\ue010{self._name}\ue011"

    def _refuse(self, *_: Any) -> NoReturn:
        raise UnknownUntilRun(f"'{self._name}' is known only when the query runs")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __mod__ = _refuse
    __len__ = __iter__ = __getitem__ = __contains__ = __int__ = __float__ = _refuse


def _insert_placeholders(text: Expanded, source: SourceText, *, backslash: bool) -> Expanded:
    if "\ue010" not in text.text:
        return text
    edits: list[Edit] = []
    before: Token | None = None
    done = 0
    for token in list(scan(source, backslash=backslash)):
        if token.start < done:
            continue
        printed = _PRINTED.match(token.text) or _PRINTED.match(source.text, token.start)
        if token.kind == "comment":
            edits.append(Edit(token.start, token.end, _PRINTED.sub(r"\1", token.text)))
            continue
        if token.kind == "string" and "\ue010" in token.text and token.text[0] == "'":
            edits.append(_string_edit(token, before))
        elif printed is not None and printed.start() == token.start and token.text[0] == "\ue010":
            name = printed[1]
            if name.rpartition("_")[2] not in _PLAIN:
                raise source.error(
                    f"{{{{ {name} }}}} must be in quotes",
                    token.start,
                    f"write '{{{{ {name} }}}}', or @{name}",
                )
            edits.append(Edit(token.start, printed.end(), placeholder(name)))
            done = printed.end()
        elif "\ue010" in token.text:
            inside = _PRINTED.search(token.text)
            raise source.error(
                f"'{inside[1] if inside else token.text}' cannot be a part of a name",
                token.start,
                "it is known only when the query runs",
            )
        before = token
    return text.edited(edits)


def _string_edit(token: Token, before: Token | None) -> Edit:
    """Return an edit that turns a string with time variables into a concatenation."""
    parts: list[str] = []
    position = 1
    for printed in _PRINTED.finditer(token.text):
        if printed.start() > position:
            parts.append(f"'{token.text[position : printed.start()]}'")
        parts.append(_placeholder_text(printed[1]))
        position = printed.end()
    if position < len(token.text) - 1:
        parts.append(f"'{token.text[position:-1]}'")
    text = parts[0] if len(parts) == 1 else f"CONCAT({', '.join(parts)})"
    kind = None if before is None or before.kind != "word" else _TYPES.get(before.text.upper())
    if before is None or kind is None:
        return Edit(token.start, token.end, text)
    return Edit(before.start, token.end, f"CAST({text} AS {kind})")


def _placeholder_text(name: str) -> str:
    prefix, _, suffix = name.rpartition("_")
    if suffix in NUMBERS:
        return f"CAST({placeholder(name)} AS VARCHAR(30))"
    return placeholder(f"{prefix}_{AS_TEXT.get(suffix, suffix)}")
