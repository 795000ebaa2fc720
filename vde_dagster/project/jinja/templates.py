"""Rendering templates, with the place in the file that every piece of the result comes from."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

from jinja2 import Environment, StrictUndefined, Template, TemplateError, TemplateSyntaxError
from jinja2.runtime import Context

from vde_dagster.base.suggestions import closest
from vde_dagster.errors import ProjectError, SourceLocation, Unknown
from vde_dagster.project.jinja.time_values import UnknownUntilRun, is_time_value
from vde_dagster.project.macros.expanded import Expanded
from vde_dagster.sql.scanner import SourceText

_EXTENSIONS = ("jinja2.ext.do", "jinja2.ext.loopcontrols")
_PRINTING = frozenset({"string", "trim", "default", "d", "safe", "forceescape", "e", "escape"})
"""Filters that a value which is not known yet may go through."""
_MARK = re.compile("\ue000(\\d+)\ue001")
_FIRST_OF_LINE = re.compile(r"(?:(?<=\n)|\A)[^\S\n]*(?=\S)")


class _Missing(StrictUndefined):
    """An unknown name: it can be asked whether it is there, and not be printed."""

    __slots__ = ()

    def __bool__(self) -> bool:  # type: ignore[override]
        return False


class Templates:
    """Renders the templates of one file.

    Args:
        macros: Texts of files of Jinja macros, by path.
        names: What templates can name.
        finalize: What is printed of a value.
    """

    def __init__(
        self,
        macros: Mapping[str, str],
        names: Mapping[str, Any],
        finalize: Callable[[Any], Any],
    ) -> None:
        self._environment = _environment(finalize)
        self._files = {f"<jinja {path}>": SourceText(Path(path), macros[path]) for path in macros}
        self._environment.globals.update(names)
        contexts = [self._run(file, source) for file, source in self._files.items()]
        for context in contexts:
            self._environment.globals.update(context.vars)
        for context in contexts:  # Macros of one file may call those of another.
            context.parent.update(self._environment.globals)

    def missing(self, name: str) -> Any:
        """Return a value that says, when it is printed, that nobody has set it."""
        return self._environment.undefined(name=name)

    def render(self, source: SourceText, start: int, end: int) -> Expanded:
        """Render a part of a file.

        Raises:
            ProjectError: It is no template, or fails; points at the line.
        """
        text = source.text[start:end]
        rendered = self._rendered(source, start, text)
        marked = _marked(self._environment, text, start)
        if marked is not None:
            try:
                places = self._rendered(source, start, marked)
            except ProjectError:  # What marks change is how texts compare.
                places = ""
            if _MARK.sub("", places) == rendered:
                return _placed(places, start)
        return Expanded(rendered, (0,), ((start, False),))

    def _rendered(self, source: SourceText, start: int, text: str) -> str:
        here = "<jinja here>"
        first = source.text.count("\n", 0, start)
        try:
            return self._template(text, here).render()
        except RecursionError:
            raise source.error("the template calls itself without end", start) from None
        except ProjectError:
            raise
        except Exception as error:
            raise self._told(error, {here: (source, first)}) from error

    def _template(self, text: str, file: str) -> Template:
        code = _compiled(text, file)
        return Template.from_code(self._environment, code, self._environment.globals)

    def _run(self, file: str, source: SourceText) -> Context:
        """Run a file of macros; what it defines is in the context, private names included."""
        try:
            template = self._template(source.text, file)
            context = template.new_context()
            try:
                for _ in template.root_render_func(context):
                    pass
            except Exception:
                self._environment.handle_exception()
        except ProjectError:
            raise
        except Exception as error:
            raise self._told(error, {}) from error
        return context

    def _told(self, error: Exception, files: Mapping[str, tuple[SourceText, int]]) -> ProjectError:
        """Say what went wrong in a template, with file and line."""
        known = {name: (source, 0) for name, source in self._files.items()} | dict(files)
        at = _line_of(error, known)
        location = None
        if at is not None:
            source, first = known[at[0]]
            location = SourceLocation(source.path, first + at[1])
        return _mistake(error, location, [*self._environment.globals])


def broken_macros(macros: Mapping[str, str]) -> dict[str, ProjectError]:
    """Return what is wrong with files of Jinja macros, by path.

    Args:
        macros: Their texts, by path.
    """
    found: dict[str, ProjectError] = {}
    for path, text in macros.items():
        try:
            Templates({path: text}, {}, _same)
        except ProjectError as error:
            found[path] = error
    return found


def _mistake(error: Exception, location: SourceLocation | None, names: list[str]) -> ProjectError:
    message = str(error).splitlines()[0] if str(error) else type(error).__name__
    hint: str | None
    missed = re.match(r"'(var )?(.*?)' is undefined", message)
    if missed is not None and missed[1]:
        name = missed[2]
        message = f"Jinja: unknown variable '{name}'"
        hint = f"set it under [tool.vde.variables], or give a default: {{{{ var('{name}', 0) }}}}"
        unknown = Unknown("variable", name)
    elif missed is not None:
        name = missed[2]
        near = closest(name, names)
        message = f"Jinja: unknown name '{name}'"
        hint = f"did you mean '{near}'?" if near else _HINTS.get(name, _HINT)
        unknown = Unknown("macro", name)
    else:
        hint = _PRINT_ONLY if isinstance(error, UnknownUntilRun) else None
        unknown = None
        if isinstance(error, TemplateError | UnknownUntilRun):
            message = f"Jinja: {message}"
        else:
            message = f"Jinja failed: {type(error).__name__}: {message}"
    return ProjectError(message, hint=hint, location=location, unknown=unknown)


_PRINT_ONLY = "print it in a string, or use SQL's functions"
_HINT = "define it: {% set x = … %}, a macro in macros/*.sql, or a variable: {{ var('x') }}"
_HINTS = dict.fromkeys(("ref", "source", "config"), "that is dbt's; write the table's name")


def _environment(finalize: Callable[[Any], Any]) -> Environment:
    environment = Environment(
        extensions=_EXTENSIONS, undefined=_Missing, autoescape=False, finalize=finalize
    )
    environment.filters = {
        name: function if name in _PRINTING else _only_known(function)
        for name, function in environment.filters.items()
    }
    return environment


def _only_known(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep a filter from changing what is not known yet."""

    @functools.wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        if any(map(is_time_value, arguments)):
            raise UnknownUntilRun("a time variable is known only when the query runs")
        return function(*arguments, **named)

    return checked


@functools.lru_cache(maxsize=512)
def _compiled(text: str, file: str) -> CodeType:
    return _environment(_same).compile(text, file, file)


def _same(value: Any) -> Any:
    """Keep the compiler from printing constants itself; the real one is asked when it runs."""
    return value


def _line_of(
    error: BaseException, files: Mapping[str, tuple[SourceText, int]]
) -> tuple[str, int] | None:
    if isinstance(error, TemplateSyntaxError) and error.filename in files:
        return str(error.filename), error.lineno
    found = None
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in files:
            found = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return found


def _marked(environment: Environment, text: str, start: int) -> str | None:
    """Write its offset before the first word of every line that is printed as it is."""
    edits: list[tuple[int, int]] = []
    position = 0
    for _, kind, value in environment.lex(text):
        at = text.find(value, position)
        if at < 0:
            return None
        if kind == "data":
            edits += [(at + m.end(), start + at + m.end()) for m in _FIRST_OF_LINE.finditer(value)]
        position = at + len(value)
    pieces: list[str] = []
    done = 0
    for at, offset in edits:
        pieces += [text[done:at], f"\ue000{offset}\ue001"]
        done = at
    return "".join([*pieces, text[done:]])


def _placed(marked: str, start: int) -> Expanded:
    """Take the marks out of a text and keep what they say."""
    texts: list[str] = []
    starts: list[int] = [0]
    origins: list[tuple[int, bool]] = [(start, False)]
    done = position = 0
    for mark in _MARK.finditer(marked):
        texts.append(marked[done : mark.start()])
        position += len(texts[-1])
        starts.append(position)
        origins.append((int(mark[1]), False))
        done = mark.end()
    texts.append(marked[done:])
    return Expanded("".join(texts), tuple(starts), tuple(origins))
