"""Sandbox for Jinja in a project's files: templates are data, run no code, and always terminate.

Templates can access only attributes on an allow-list, by type of the value. Every operation is
charged to a budget by the size of its result, so a loop, a filter or a product cannot exceed the
limits on memory and time below.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import date, timedelta
from datetime import time as clock_time
from functools import wraps
from string import Formatter
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateRuntimeError
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, TemplateReference
from jinja2.sandbox import SandboxedEnvironment, SandboxedFormatter
from jinja2.utils import Cycler, Namespace, pass_context

MOST_UNITS = 5_000_000
"""Budget of a template: loop steps, calls, and created characters or items in total."""
MOST_SECONDS = 10.0
"""Maximum CPU time of a template."""
MOST_SIZE = 1_000_000
"""Maximum size of a text or list that a template creates."""
_MOST_BITS = 4_096
_DEEPEST = 100
_WIDEST = 10_000
"""Maximum width in a format specification."""
_CALLS_PER_TIME_CHECK = 256
_UNITS_PER_CALL = 20
OWN_FILTERS = (_STEPS, _CONCATENATED, _MEASURED) = ("vde steps", "vde concat", "vde measured")
"""Internal filters that wrap loops, `~` and comparisons; templates cannot name them."""
_REMOVED_FILTERS = ("urlize",)
_REMOVED_GLOBALS = ("lipsum",)
_DIGITS = re.compile(r"\d+")
_FIELD = re.compile(r"%(?:\((?P<key>[^)]*)\))?(?P<flags>[#0\- +]*)(?P<size>[\d.*]*)")


class LimitExceededError(TemplateRuntimeError):
    """A template used too much time or memory."""


class _Budget:
    __slots__ = ("_calls", "_ends", "_left")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self._left = MOST_UNITS
        self._calls = 0
        self._ends = time.thread_time() + MOST_SECONDS

    def charge(self, units: int) -> None:
        """Subtract steps or characters; raise LimitExceededError if budget or time is used up."""
        self._left -= units
        if self._left < 0:
            raise LimitExceededError(
                f"the template's steps and created characters exceed {MOST_UNITS:,}"
            )
        self._calls += 1
        if self._calls % _CALLS_PER_TIME_CHECK == 0 and time.thread_time() > self._ends:
            raise LimitExceededError(
                f"the template takes more than {MOST_SECONDS:.0f} s of processor time"
            )

    def charge_size(self, size: int) -> None:
        if size > MOST_SIZE:
            raise LimitExceededError(
                f"the template creates a text or list of more than {MOST_SIZE:,} characters "
                "or items"
            )
        self.charge(1 + size)

    def measure(self, value: Any) -> int:
        """Return a value's number of characters and items; charge a collection to the budget."""
        if isinstance(value, str):
            return len(value)
        if not isinstance(value, _NESTED):
            return 1
        size = 0
        waiting = [iter((value,))]
        # Parts that occur repeatedly also count repeatedly.
        # A loop, because a value may be nested more deeply than Python can recurse.
        while waiting:
            part = next(waiting[-1], _END)
            if part is _END:
                waiting.pop()
                continue
            size += len(part) if isinstance(part, str) else 1
            if size > MOST_SIZE or len(waiting) > _DEEPEST:
                raise LimitExceededError(
                    f"the template creates a value with more than {MOST_SIZE:,} parts, or nested "
                    f"more than {_DEEPEST} levels deep"
                )
            if isinstance(part, _NESTED):
                waiting.append(_iterate_parts(part))
        self.charge(size)
        return size


_END = object()
_NESTED: tuple[type[Any], ...] = (
    list,
    tuple,
    set,
    frozenset,
    Mapping,
    Namespace,
    type({}.items()),
    type({}.values()),
)


def _iterate_parts(value: Any) -> Iterator[Any]:
    if isinstance(value, Namespace):
        value = object.__getattribute__(value, "_Namespace__attrs")
    if isinstance(value, Mapping):
        return iter([part for pair in value.items() for part in pair])
    return iter(list(value))


_LIST = frozenset(
    {"append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse"}
    | {"sort"}
)
_DICT = frozenset(
    {"clear", "copy", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"}
)
_STRING = frozenset(name for name in dir(str) if not name.startswith("_")) - {
    # These create texts from tables, and bytes; `format` is wrapped on attribute access.
    *("encode", "format", "format_map", "maketrans", "translate")
}
_TIMES = frozenset(
    {"year", "month", "day", "hour", "minute", "second", "microsecond", "days", "seconds"}
    | {"isoformat", "strftime", "date", "time", "weekday", "isoweekday", "isocalendar", "ctime"}
    | {"replace", "timestamp", "toordinal", "total_seconds"}
)
_LOOP = frozenset(
    {"index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0"}
    | {"previtem", "nextitem", "cycle", "changed"}
)
_MACRO = frozenset({"name", "arguments", "catch_kwargs", "catch_varargs", "caller"})
_EXPRESSION = frozenset(
    {"alias", "alias_or_name", "catalog", "db", "expression", "expressions", "is_int", "is_star"}
    | {"is_string", "key", "name", "output_name", "quoted", "sql", "table", "this"}
)
_ALLOWED: tuple[tuple[type[Any], frozenset[str]], ...] = (
    (str, _STRING),
    (list, _LIST),
    (tuple, frozenset({"count", "index"})),
    (dict, _DICT),
    (int, frozenset({"bit_length", "denominator", "imag", "numerator", "real"})),
    (float, frozenset({"imag", "is_integer", "real"})),
    (date, _TIMES),
    (clock_time, _TIMES),
    (timedelta, _TIMES),
    (LoopContext, _LOOP),
    (Macro, _MACRO),
    (Cycler, frozenset({"current", "items", "next", "pos", "reset"})),
    (BlockReference, frozenset({"super"})),
)
"""Attributes that templates may access, by type of the value, see `is_safe_attribute`."""


class Sandbox(SandboxedEnvironment):
    """Jinja environment for templates that may be hostile.

    Pass only copies of lists and dictionaries (`copied`), because a template may change them.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, *, finalize: Callable[[Any], Any] | None = None, **options: Any) -> None:
        self.budget = _Budget()
        super().__init__(finalize=self._wrap_finalize(finalize), optimized=False, **options)
        for name in _REMOVED_GLOBALS:
            self.globals.pop(name, None)
        filters: dict[str, Any] = dict(self.filters)
        self.filters = {
            name: self._wrap_function(name, function)
            for name, function in filters.items()
            if name not in _REMOVED_FILTERS
        }
        tests: dict[str, Any] = dict(self.tests)
        self.tests = {name: self._wrap_function("", test) for name, test in tests.items()}
        self.filters[_STEPS] = self._count_steps
        self.filters[_CONCATENATED] = self._concatenate
        self.filters[_MEASURED] = self._measured

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return whether templates may access an attribute of a value."""
        if attr.startswith("_"):
            return False
        if isinstance(obj, Namespace | TemplateReference):
            return True
        for type_, names in _ALLOWED:
            if isinstance(obj, type_):
                return attr in names or attr in getattr(obj, "_fields", ())
        return _is_expression(obj) and attr in _EXPRESSION

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute `+`, `*`, `**` or `%`; a result that would be too large is an error."""
        budget = self.budget
        if operator == "%" and isinstance(left, str):
            return self._format_percent(left, right)
        if operator == "+" and _is_sequence(left) and _is_sequence(right):
            budget.charge_size(len(left) + len(right))
        elif operator == "*":
            for many, count in ((left, right), (right, left)):
                if _is_sequence(many) and isinstance(count, int):
                    budget.charge_size(len(many) * max(count, 0))
        if operator in ("*", "**") and isinstance(left, int) and isinstance(right, int):
            times = right if operator == "**" else 1
            bits = left.bit_length() * max(times, 1)
            if bits > _MOST_BITS and left not in (-1, 0, 1):
                raise LimitExceededError(f"a number has more than {_MOST_BITS:,} bits")
        return super().call_binop(context, operator, left, right)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return an item of a value, or an attribute that the allow-list contains."""
        if isinstance(argument, tuple):
            self.budget.measure(argument)
        return super().getitem(obj, argument)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return a replacement for `str.format` or `format_map` that limits the result's size."""
        if super().wrap_str_format(value) is None:
            return None
        text, is_map = str(value.__self__), value.__name__ == "format_map"

        def formatted(*arguments: Any, **named: Any) -> str:
            if is_map:
                (given,) = arguments
                return _BoundedFormatter(self).vformat(text, (), given)
            return _BoundedFormatter(self).vformat(text, arguments, named)

        return formatted

    def call(__self, __context: Context, __obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a value, and charge the cost of the call to the template's budget."""
        budget = __self.budget
        budget.charge(_UNITS_PER_CALL)
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, LoopContext) or (isinstance(__obj, LoopContext) and args):
            for argument in args:
                budget.measure(argument)
        elif isinstance(owner, str | list | tuple | dict | date | clock_time | timedelta):
            __self._charge_method(owner, __obj.__name__, args, kwargs)
        elif __obj is dict:
            for argument in (*args, *kwargs.values()):
                budget.measure(argument)
        found = super().call(__context, __obj, *args, **kwargs)
        if isinstance(found, str):
            budget.charge_size(len(found))
        return found

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        _bound_nodes(tree)
        return tree

    def _wrap_finalize(self, finalize: Callable[[Any], Any] | None) -> Callable[..., Any]:
        @pass_context  # Prevents the compiler from inlining constants, which would not be charged.
        def measured(_: Context, value: Any) -> Any:
            made = value if finalize is None else finalize(value)
            self.budget.charge(1 + self.budget.measure(made))
            return made

        return measured

    def _charge_method(
        self, owner: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        budget = self.budget
        if isinstance(owner, str):
            budget.charge_size(_size_of_method(owner, name, args, kwargs, budget))
            return
        given = (*args, *kwargs.values())
        if name in ("append", "insert", "get", "pop", "items", "keys", "values", "copy", "clear"):
            budget.charge(1 + (len(owner) if name in ("insert", "copy") else 0))
        elif name in ("extend", "update"):
            more = sum(len(one) for one in given if isinstance(one, _SIZED))
            budget.charge_size(len(owner) + more)
        else:  # The others compare or hash.
            for value in (owner, *given):
                budget.measure(value)
        if isinstance(owner, dict) and args and name in ("get", "pop", "setdefault"):
            budget.measure(args[0])

    def _wrap_function(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a filter or test that charges its arguments and its result to the budget."""
        skips = 1 if hasattr(function, "jinja_pass_arg") else 0

        @wraps(function)
        def bounded(*arguments: Any, **named: Any) -> Any:
            budget = self.budget
            budget.charge(1)
            given = arguments[skips:]
            for value in (*given, *named.values()):
                budget.measure(value)
            if name == "format" and given:
                return self._format_percent(str(given[0]), named or tuple(given[1:]))
            if name and given:
                budget.charge_size(_size_of_filter(name, given, named, budget))
            found = function(*arguments, **named)
            if isinstance(found, _SIZED):
                budget.charge_size(len(found))
            return found

        return bounded

    def _format_percent(self, text: str, values: Any) -> str:
        largest = self.budget.measure(values)
        total = len(text)
        for field in _FIELD.finditer(text):
            if "*" in field["size"] or any(
                int(number) > _WIDEST for number in _DIGITS.findall(field["size"][:20])
            ):
                raise LimitExceededError(f"a format is wider than {_WIDEST:,} characters")
            total += _WIDEST if field["size"] else 0
        fields = text.count("%") if isinstance(values, Mapping) else 1
        self.budget.charge_size(min(total, MOST_SIZE) + fields * largest)
        made: str = text % values
        return made

    @pass_context
    def _count_steps(self, _: Context, items: Any, units: int) -> Iterator[Any]:
        for item in items:
            self.budget.charge(units)
            yield item

    @pass_context
    def _concatenate(self, _: Context, parts: Sequence[Any]) -> str:
        texts = []
        for part in parts:
            self.budget.measure(part)
            texts.append(str(part))
        self.budget.charge_size(sum(map(len, texts)))
        return "".join(texts)

    @pass_context
    def _measured(self, _: Context, value: Any) -> Any:
        self.budget.measure(value)
        return value


def copied(value: Any) -> Any:
    """Copy a list, dictionary or set, so that a template cannot change the original."""
    return deepcopy(value) if isinstance(value, list | dict | set) else value


_SIZED = (str, list, tuple, set, frozenset, dict)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, str | list | tuple)


def _is_expression(value: Any) -> bool:
    return any(
        base.__module__.startswith("sqlglot") and base.__name__ in ("Expr", "Expression")
        for base in type(value).__mro__
    )


def _size_of_method(
    text: str, name: str, args: Sequence[Any], named: Mapping[str, Any], budget: _Budget
) -> int:
    """Return an upper bound for the length of a text method's result."""
    if name in ("center", "ljust", "rjust", "zfill"):
        return max(len(text), *_numbers(args, named))
    if name == "expandtabs":
        return len(text) + text.count("\t") * max(8, *_numbers(args, named))
    if name == "replace" and len(args) >= 2:
        return _replaced_size(text, args[0], args[1])
    if name == "join" and args:
        size, joined = budget.measure(args[0]), args[0]
        return size + (len(joined) * len(text) if isinstance(joined, _SIZED) else 0)
    for value in args:  # Methods that search and split.
        budget.measure(value)
    return len(text)


def _size_of_filter(
    name: str, given: Sequence[Any], named: Mapping[str, Any], budget: _Budget
) -> int:
    """Return an upper bound for the size of a filter's result."""
    value = given[0]
    numbers = _numbers(given[1:], named)
    size = budget.measure(value)
    if name in ("center", "batch", "slice", "truncate", "wordwrap"):
        return size + max(numbers)
    if name == "round" and max(numbers) > _DEEPEST:
        raise LimitExceededError(
            f"a number may have at most {_DEEPEST} digits after the decimal point"
        )
    if name in ("indent", "tojson"):
        width = max([0, *(len(one) for one in given[1:] if isinstance(one, str)), *numbers])
        lines = value.count("\n") + 1 if isinstance(value, str) else size
        return size + lines * max(width, 4)
    if name == "replace" and len(given) >= 3:
        return _replaced_size(str(value), given[1], given[2])
    if name == "join":
        between = given[1] if len(given) > 1 else named.get("d", "")
        return size + size * len(str(between))
    if name == "sum" and isinstance(value, list | tuple):
        start = given[2] if len(given) > 2 else named.get("start", 0)
        if not isinstance(start, int | float):
            return len(value) * size
    return size * 10 if name in ("pprint", "urlencode", "xmlattr") else size


def _numbers(given: Iterable[Any], named: Mapping[str, Any]) -> list[int]:
    found = [int(one) for one in (*given, *named.values()) if isinstance(one, int | float)]
    return found or [0]


def _replaced_size(text: str, old: Any, new: Any) -> int:
    old, new = str(old), str(new)
    return len(text) + (text.count(old) if old else len(text) + 1) * len(new)


class _BoundedFormatter(SandboxedFormatter):
    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox)
        self._budget = sandbox.budget

    def convert_field(self, value: Any, conversion: Any) -> Any:
        self._budget.measure(value)
        return Formatter.convert_field(self, value, conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        if any(len(n) > 9 or int(n) > _WIDEST for n in _DIGITS.findall(format_spec)):
            raise LimitExceededError(f"a format is wider than {_WIDEST:,} characters")
        self._budget.measure(value)
        made = str(Formatter.format_field(self, value, format_spec))
        self._budget.charge_size(len(made))
        return made


def _bound_nodes(node: nodes.Node) -> None:
    """Make loops, concatenations, comparisons and keys in a template charge the budget."""
    for child in node.iter_child_nodes():
        _bound_nodes(child)
    for field in node.fields:
        value = getattr(node, field)
        if isinstance(value, nodes.Concat):
            setattr(node, field, _concatenation_filter(value))
        elif isinstance(value, list):
            value[:] = [
                _concatenation_filter(v) if isinstance(v, nodes.Concat) else v for v in value
            ]
    if isinstance(node, nodes.For):
        data = sum(len(one.data) for one in node.find_all(nodes.TemplateData))
        units = nodes.Const(1 + data, lineno=node.lineno)
        node.iter = nodes.Filter(node.iter, _STEPS, [units], [], None, None, lineno=node.lineno)
    elif isinstance(node, nodes.Compare):
        node.expr = _measured(node.expr)
        for operand in node.ops:
            operand.expr = _measured(operand.expr)
    elif isinstance(node, nodes.Pair):
        node.key = _measured(node.key)


def _concatenation_filter(node: nodes.Concat) -> nodes.Filter:
    parts = nodes.List(node.nodes, lineno=node.lineno)
    return nodes.Filter(parts, _CONCATENATED, [], [], None, None, lineno=node.lineno)


def _measured(node: nodes.Expr) -> nodes.Expr:
    if isinstance(node, nodes.Const):
        return node
    return nodes.Filter(node, _MEASURED, [], [], None, None, lineno=node.lineno)
