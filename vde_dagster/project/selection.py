"""Selection of models by name or by expression: `(tag:finance | marts.*) & ^git:main+`."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import closest, suggest
from vde_dagster.errors import UsageError
from vde_dagster.project.dag import Models, ancestors, descendants

Changed = Callable[[str], Collection[str]]
"""Returns the files, relative to the project's folder, that differ from a git branch."""

_BEYOND_NAMES = re.compile(r"^\s*[-!]|[&|^()+:\s]")
_TOKEN = re.compile(r"\s*([&|^()]|[^\s&|^()]+)")


def select(
    models: Models, patterns: Sequence[str], changed: Changed | None = None
) -> set[ModelName]:
    """Return the models that match one of the patterns, or all models without patterns.

    A pattern is a name or a glob (`marts.*`), `tag:finance`, or `git:main` for differences from a
    branch; a `+` before it adds ancestors, a `+` after it descendants. `&`, `|`, `^` (all except)
    and brackets combine sets. A `-` or `!` before a whole pattern excludes its models.

    Args:
        changed: Returns the files that differ from a git branch; None to refuse `git:` patterns.

    Raises:
        UsageError: A pattern matches nothing, or is invalid.
    """
    if not patterns:
        return set(models)
    chosen: set[ModelName] = set()
    dropped: set[ModelName] = set()
    only_negative = True
    for pattern in patterns:
        negative = pattern[:1] in "-!"
        only_negative &= negative
        found = _SelectionParser(models, changed, pattern, pattern[negative:]).read()
        (dropped if negative else chosen).update(found)
    return (set(models) if only_negative else chosen) - dropped


def select_by_name(names: Iterable[ModelName], patterns: Sequence[str]) -> set[ModelName] | None:
    """Select models by patterns that are only names and globs.

    Return None without patterns, or if a pattern needs `select`: it has `+`, `tag:` or `git:`,
    combines or excludes sets, or matches nothing.

    >>> select_by_name([ModelName("a", "b"), ModelName("a", "c")], ["a.c"])
    {ModelName(namespace='a', name='c')}
    """
    if not patterns or any(_BEYOND_NAMES.search(pattern) for pattern in patterns):
        return None
    texts = {str(name): name for name in names}
    found: set[ModelName] = set()
    for pattern in patterns:
        matching = fnmatch.filter(texts, pattern.strip().lower())
        if not matching:
            return None
        found |= {texts[text] for text in matching}
    return found


@dataclass(slots=True)
class _SelectionParser:
    """Parser of one selection pattern, such as `marts.* & tag:daily`.

    `&` binds stronger than `|`; `^` and `+` bind to one term.
    """

    models: Models
    changed: Changed | None
    written: str
    text: str
    tokens: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = _TOKEN.findall(self.text)[::-1]

    def read(self) -> set[ModelName]:
        found = self._parse_union()
        if self.tokens:
            raise self._syntax_error(f"'{self.tokens[-1]}' is unexpected")
        if not found:
            raise UsageError(
                f"no model matches '{self.written}'",
                hint=suggest(self.text.strip("+"), [str(name) for name in self.models], "models"),
            )
        return found

    def _parse_union(self) -> set[ModelName]:
        found = self._parse_intersection()
        while self._take("|"):
            found = found | self._parse_intersection()
        return found

    def _parse_intersection(self) -> set[ModelName]:
        found = self._parse_term()
        while self._take("&"):
            found = found & self._parse_term()
        return found

    def _parse_term(self) -> set[ModelName]:
        if self._take("^"):
            return set(self.models) - self._parse_term()
        up = self._next() == "+" and len(self.tokens) > 1 and self.tokens[-2] == "("
        if up:
            self.tokens.pop()
        if self._take("("):
            found = self._parse_union()
            if not self._take(")"):
                raise self._syntax_error("a bracket is not closed")
            return self._add_relatives(found, up, self._take("+"))
        word = self._next()
        if word is None or word in "&|)+":
            raise self._syntax_error(
                "a name is missing" if word is None else f"'{word}' is not a name"
            )
        self.tokens.pop()
        return self._add_relatives(self._match(word.strip("+")), word[0] == "+", word[-1] == "+")

    def _add_relatives(self, found: set[ModelName], up: bool, down: bool) -> set[ModelName]:
        above = ancestors(self.models, found) if up else set()
        below = descendants(self.models, found) if down else set()
        return found | above | below

    def _match(self, text: str) -> set[ModelName]:
        what, colon, value = text.partition(":")
        if colon and what == "git":
            return self._changed_models(value)
        if colon and what == "tag":
            tag = value.lower()
            return {
                name
                for name, model in self.models.items()
                if any(fnmatch.fnmatchcase(own.lower(), tag) for own in model.tags)
            }
        pattern = text.lower()
        return {name for name in self.models if fnmatch.fnmatchcase(str(name), pattern)}

    def _changed_models(self, branch: str) -> set[ModelName]:
        if self.changed is None:
            raise self._syntax_error("git: is not supported here")
        files = set(self.changed(branch))
        return {
            name
            for name, model in self.models.items()
            if files & {model.location.path.as_posix(), *model.kind.files}
        }

    def _next(self) -> str | None:
        return self.tokens[-1] if self.tokens else None

    def _take(self, token: str) -> bool:
        if self._next() != token:
            return False
        self.tokens.pop()
        return True

    def _syntax_error(self, why: str) -> UsageError:
        return UsageError(
            f"invalid selection '{self.written}': {why}",
            hint="combine names, globs, tag:x or git:branch, optionally with +, by &, |, ^ and ( )",
        )


T = TypeVar("T")


def find_model(models: Mapping[ModelName, T], text: str, default_namespace: str) -> ModelName:
    """Parse a model's name, and check that the model exists."""
    name = ModelName.parse(text, default_namespace)
    if name not in models:
        raise no_model(name, models)
    return name


def model_and_column(
    models: Container[ModelName], text: str, default_namespace: str
) -> tuple[ModelName, str | None]:
    """Parse `schema.model` or `schema.model.column`.

    `a.b` may also be a column of model `a` in the default namespace, unless a model `a.b` exists.

    >>> model_and_column({ModelName("a", "b")}, "a.b.c", "default")
    (ModelName(namespace='a', name='b'), 'c')
    >>> model_and_column({ModelName("default", "b")}, "b.c", "default")
    (ModelName(namespace='default', name='b'), 'c')
    """
    parts = ModelName.split(text)
    if len(parts) == 3:
        return ModelName(parts[0].lower(), parts[1].lower()), parts[2]
    name = ModelName.parse(text, default_namespace)
    if name not in models and len(parts) == 2:
        short = ModelName(default_namespace.lower(), parts[0].lower())
        if short in models:
            return short, parts[1]
    return name, None


def no_model(name: ModelName, models: Iterable[ModelName]) -> UsageError:
    """Create the error for a model that does not exist."""
    close = closest(str(name), map(str, models))
    hint = f"did you mean '{close}'?" if close else "to list models, run: vde info"
    return UsageError(f"model '{name}' does not exist", hint=hint)
