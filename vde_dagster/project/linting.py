"""The base class of linter rules, `Rule`, for those of a project in `linter/`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar


class RuleViolation:
    """A violation of a rule by a model.

    Args:
        violation_msg: What is wrong, in one sentence.
        violation_range: Where, as SQLMesh's editors want it; not used.
        fixes: Edits that mend it; not used.
    """

    def __init__(
        self,
        rule: Rule,
        violation_msg: str,
        violation_range: Any = None,
        fixes: Any = None,
    ) -> None:
        self.rule = rule
        self.violation_msg = violation_msg
        self.violation_range = violation_range
        self.fixes = fixes or []

    def __repr__(self) -> str:
        return f"{self.rule.name}: {self.violation_msg}"


class Rule(ABC):
    """A rule that every model is looked at by; its class's name in lower case is its name.

    >>> class NoMissingOwner(Rule):
    ...     'Models have owners.'
    ...     def check_model(self, model):
    ...         return None if model.owner else self.violation()
    >>> from types import SimpleNamespace
    >>> NoMissingOwner(None).check_model(SimpleNamespace(owner=None))
    nomissingowner: Models have owners.

    Args:
        context: The project around the model: `models`, `get_model(name)`, `models_with_tests`.
    """

    name: ClassVar[str] = "rule"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.name = cls.__name__.lower()

    def __init__(self, context: Any) -> None:
        self.context = context

    @abstractmethod
    def check_model(self, model: Any) -> RuleViolation | Sequence[RuleViolation] | None:
        """Return the violations of a model, if any."""

    @property
    def summary(self) -> str:
        """The rule's summary: its docstring."""
        return " ".join((self.__doc__ or self.name).split())

    def violation(
        self, violation_msg: str | None = None, violation_range: Any = None, fixes: Any = None
    ) -> RuleViolation:
        """Return a violation by the model at hand; its message is the rule's summary by default."""
        return RuleViolation(self, violation_msg or self.summary, violation_range, fixes)
