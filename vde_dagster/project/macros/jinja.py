"""Jinja templates in SQL files, rendered with the origin of every piece of the result.

`'{{ start_ds }}'` is the variable `@start_ds`; `'day={{ start_ds }}'` puts it together with text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, NoReturn

from jinja2 import Environment, StrictUndefined, Template, TemplateError, TemplateSyntaxError
from jinja2.runtime import Context

from vde_dagster.base.texts import closest
from vde_dagster.errors import ProjectError, SourceLocation, Unknown
from vde_dagster.project.macros.variables import TIME_VARIABLES
from vde_dagster.sql.edits import Edit
from vde_dagster.sql.expanded import Expanded
from vde_dagster.sql.scanner import BACKSLASH_DIALECTS, SourceText, Token, scan
from vde_dagster.sql.trees import placeholder

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
        return Expanded(rendered, ((0, ~start),))

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
        """Return a template's error as a mistake with file and line."""
        known = {name: (source, 0) for name, source in self._files.items()} | dict(files)
        at = _line_of(error, known)
        location = None
        if at is not None:
            source, first = known[at[0]]
            location = SourceLocation(source.path, first + at[1])
        return _mistake(error, location, [*self._environment.globals])


def broken_macros(macros: Mapping[str, str]) -> dict[str, ProjectError]:
    """Return the mistakes in files of Jinja macros, by path.

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
    before, *parts = _MARK.split(marked)
    pieces = [(text, ~int(offset)) for offset, text in zip(parts[::2], parts[1::2], strict=True)]
    return Expanded.of([(before, ~start), *pieces])


THIS_MODEL = "this_model"
VALUES = TIME_VARIABLES | {THIS_MODEL}
_PRINTED = re.compile("\ue010(\\w+)\ue011")
_PLAIN = ("epoch", "millis", "hour", "model")
"""What a query may have without quotes around it: numbers, and a table's name."""
_AS_TEXT = {"date": "ds", "dt": "tstz", "dtntz": "ts"}
_TYPES = {"DATE": "DATE", "TIMESTAMP": "TIMESTAMP", "DATETIME": "TIMESTAMP"}


class UnknownUntilRun(Exception):
    """A template asks more of a time variable than to be printed."""


class TimeValue:
    """A time variable in a template.

    Args:
        name: The variable's name, such as `start_ds`.
    """

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


def is_time_value(value: object) -> bool:
    """Say whether a value is a time variable, or a text that has one in it."""
    return isinstance(value, TimeValue) or (
        isinstance(value, str) and _PRINTED.search(value) is not None
    )


def with_variables(text: Expanded, source: SourceText, dialect: str) -> Expanded:
    """Put placeholders of SQL where time variables were printed.

    Args:
        source: Says where its places are.
        dialect: SQLGlot dialect of the text.

    Raises:
        ProjectError: One stands where the query cannot have it.
    """
    if "\ue010" not in text.text:
        return text
    edits: list[Edit] = []
    before: Token | None = None
    done = 0
    for token in list(scan(source, backslash=dialect in BACKSLASH_DIALECTS)):
        if token.start < done:
            continue
        printed = _PRINTED.match(token.text) or _PRINTED.match(source.text, token.start)
        if token.kind == "comment":
            edits.append(Edit(token.start, token.end, _PRINTED.sub(r"\1", token.text)))
            continue
        if token.kind == "string" and "\ue010" in token.text and token.text[0] == "'":
            edits.append(_in_string(token, before))
        elif printed is not None and printed.start() == token.start and token.text[0] == "\ue010":
            _check_plain(source, printed)
            edits.append(Edit(token.start, printed.end(), placeholder(printed[1])))
            done = printed.end()
        elif "\ue010" in token.text:
            name = _PRINTED.search(token.text)
            raise source.error(
                f"'{name[1] if name else token.text}' cannot be a part of a name",
                token.start,
                "it is known only when the query runs",
            )
        before = token
    return text.edited(edits)


def _check_plain(source: SourceText, printed: re.Match[str]) -> None:
    name = printed[1]
    if name.rpartition("_")[2] not in _PLAIN:
        raise source.error(
            f"{{{{ {name} }}}} stands without quotes",
            printed.start(),
            f"write '{{{{ {name} }}}}', or @{name}",
        )


def _in_string(token: Token, before: Token | None) -> Edit:
    """Make a string with time variables an expression."""
    parts: list[str] = []
    position = 1
    for printed in _PRINTED.finditer(token.text):
        if printed.start() > position:
            parts.append(f"'{token.text[position : printed.start()]}'")
        parts.append(_text_of(printed[1]))
        position = printed.end()
    if position < len(token.text) - 1:
        parts.append(f"'{token.text[position:-1]}'")
    text = parts[0] if len(parts) == 1 else f"CONCAT({', '.join(parts)})"
    kind = None if before is None or before.kind != "word" else _TYPES.get(before.text.upper())
    if before is None or kind is None:
        return Edit(token.start, token.end, text)
    return Edit(before.start, token.end, f"CAST({text} AS {kind})")


def _text_of(name: str) -> str:
    prefix, _, suffix = name.rpartition("_")
    if suffix in ("epoch", "millis", "hour"):
        return f"CAST({placeholder(name)} AS VARCHAR(30))"
    return placeholder(f"{prefix}_{_AS_TEXT.get(suffix, suffix)}" if name != THIS_MODEL else name)
