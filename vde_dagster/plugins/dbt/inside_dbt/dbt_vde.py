"""Patches that let dbt compile without the warehouse, and continue after introspective nodes.

dbt imports this module when it looks for plug-ins. A call of `adapter.…` is introspective if it
reads the warehouse: dbt replaces such a call with a stub while it parses. For a Spark target, `vde`
answers the call. Without an answer, only the node with the call is left out; dbt alone would end
the whole compile. The variable `_VDE_COMPILE` names the file that records the nodes left out;
without the variable, dbt compiles as usual.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any

_ENDED = "the process that answers queries has ended"
plugins: list[Any] = []
"""Name that dbt expects for a module's plug-ins; the list is empty."""
_NEEDS_NO_WAREHOUSE = frozenset(
    {"get_hard_deletes_behavior", "get_incremental_strategy_macro", "standardize_grants_dict"}
)
"""Methods that dbt replaces with stubs while it parses, although they read no table."""


# This is not an `Exception`, because dbt and its adapters catch exceptions, and then continue or
# raise others.
class IntrospectionError(BaseException):
    """An introspective call that `vde` cannot answer.

    Args:
        macro: Package and name of the macro that the code calls; empty without a macro.
        reason: Message of the error; empty if such calls are not answered at all.
    """

    def __init__(self, method: str, macro: tuple[str, str], reason: str = "") -> None:
        super().__init__(method)
        self._method, self._macro = method, macro
        self._reason = shorten(reason, 200, placeholder=" …")

    def call(self, own_packages: list[str]) -> str:
        """Return the call as in the node's code (`adapter.get_relation`), and the reason."""
        package, name = self._macro
        if not name:
            name = f"adapter.{self._method}"
        elif package not in own_packages:
            name = f"{package}.{name}"
        return f"{name}: {self._reason}" if self._reason else name


class NoAnswerError(Exception):
    """`vde` cannot answer a question about the warehouse."""


class Session:
    """Keeps the state of one compile inside dbt: the answers, and the nodes that are left out.

    Args:
        command: Command of the process that answers introspective queries; empty for no process.
        path: PYTHONPATH of the answering process.
    """

    def __init__(self, file: Path, command: list[str], path: str) -> None:
        self._file, self._command, self._path = file, command, path
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._left_out: dict[str, str] = {}
        self._asked, self._failure, self._state = False, "", ""
        self.adapter = ""
        self.sources: list[list[str]] = []
        self.known: set[tuple[str, str]] = set()
        self.write()

    @property
    def answers(self) -> bool:
        """Whether `vde` can answer introspective calls, which requires a Spark target."""
        # Queries for other adapters are not in Spark SQL.
        return bool(self._command) and self.adapter == "spark"

    def leave_out(self, unique_id: str, call: str) -> None:
        with self._lock:
            self._left_out[unique_id] = call
            self.write()

    def write(self) -> None:
        record = {
            "left_out": self._left_out,
            "asked": self._asked,
            "adapter": self.adapter,
            "sources": self.sources,
            "failure": self._failure,
            "state": self._state,
        }
        self._file.write_text(json.dumps(record), encoding="utf-8")

    def read_names(self, manifest: Any, adapter: str) -> None:
        with self._lock:
            if self.adapter:
                return
            self.adapter = adapter
            sources = manifest.sources.values()
            self.sources = sorted([one.schema, one.identifier] for one in sources)
            kinds = ("model", "seed", "snapshot")
            nodes = (n for n in manifest.nodes.values() if n.resource_type in kinds)
            found = [*self.sources, *([n.schema, n.alias] for n in nodes)]
            self.known = {(schema.lower(), name.lower()) for schema, name in found}
            self.write()

    def ask(self, **question: Any) -> dict[str, Any]:
        """Send a question to the answering process and return the answer.

        Raises:
            NoAnswerError: The question has no answer.
        """
        relation = question.get("relation")
        if relation and tuple(part.lower() for part in relation) not in self.known:
            raise NoAnswerError(f"{'.'.join(relation)} is neither a model nor a source")
        with self._lock:
            self._asked = True
            found = {"failed": self._failure} if self._failure else {}
            if self._process is None:
                self._process = self._start()
                found = self._exchange(self._process, self.sources)
                self._state = found.get("state", "")
            if "failed" not in found:
                found = self._exchange(self._process, question)
            self._failure = found.get("failed", "")
            self.write()
        why = found.get("failed") or found.get("refused")
        if why:
            raise NoAnswerError(why)
        return found

    def _start(self) -> subprocess.Popen[str]:
        atexit.register(self._end)
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": self._path},
        )

    @staticmethod
    def _exchange(process: subprocess.Popen[str], request: Any) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        found: dict[str, Any] = json.loads(line) if line else {"failed": _ENDED}
        return found

    def _end(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()


def change_compile(session: Session) -> None:
    """Patch dbt's classes, so that `vde` answers introspective calls.

    A call without an answer ends only the compilation of its node.
    """
    from dbt.adapters.exceptions.connection import InvalidConnectionError
    from dbt.adapters.factory import get_adapter_package_names
    from dbt.context.providers import RuntimeDatabaseWrapper
    from dbt.flags import get_flags
    from dbt.task.compile import CompileRunner
    from dbt_common.exceptions import DbtRuntimeError

    node = threading.local()
    of_adapter, compiled = RuntimeDatabaseWrapper.__getattr__, CompileRunner.compile

    def get(self: Any, name: str) -> Any:
        found, adapter = of_adapter(self, name), self._adapter
        if name not in adapter._parse_replacements_ or name in _NEEDS_NO_WAREHOUSE:
            return found
        connects = get_flags().INTROSPECT and adapter.type() != "spark"
        answer = _ANSWERS.get(name)

        def call(*given: Any, **named: Any) -> Any:
            reason = ""
            try:
                ask = found if connects else None
                if answer is not None and session.answers and not connects:
                    ask = partial(answer, session, adapter)
                if ask is not None:
                    value = ask(*given, **named)
                    if value is None:
                        node.absent = IntrospectionError(name, _outermost_macro())
                    return value
            except Exception as error:  # Of an adapter, whose own errors have no class in common.
                reason = str(error) or type(error).__name__
            raise IntrospectionError(name, _outermost_macro(), reason)

        return call

    def compile_node(self: Any, manifest: Any) -> Any:
        adapter = self.adapter.type()
        session.read_names(manifest, adapter)
        node.absent = None
        try:
            try:
                return compiled(self, manifest)
            except DbtRuntimeError:
                if node.absent is None:
                    raise
                # The code does not go on without a relation that is not there yet.
                absent: IntrospectionError = node.absent
                raise absent from None
        except (IntrospectionError, InvalidConnectionError) as error:
            call = "adapter"
            if isinstance(error, IntrospectionError):
                own = [self.node.package_name, *get_adapter_package_names(adapter)]
                call = error.call(own)
            session.leave_out(self.node.unique_id, call)
            self.node.compiled, self.node.compiled_code = False, None
            return self.node

    RuntimeDatabaseWrapper.__getattr__ = get
    CompileRunner.compile = compile_node


def _execute(
    session: Session,
    adapter: Any,
    sql: str,
    auto_begin: bool = False,
    fetch: bool = False,
    limit: int | None = None,
) -> Any:
    """Answer `adapter.execute`, which `run_query` and `statement` call."""
    from dbt.adapters.contracts.connection import AdapterResponse
    from dbt_common.clients import agate_helper

    found = session.ask(ask="rows", sql=sql, limit=limit)
    names = [name for name, _ in found["columns"]]
    rows = [dict(zip(names, map(_decode, row), strict=True)) for row in found["rows"]]
    table = agate_helper.table_from_data_flat(rows, names) if fetch else agate_helper.empty_table()
    return AdapterResponse(_message="OK"), table


def _get_relation(
    session: Session, adapter: Any, database: str | None, schema: str, identifier: str
) -> Any:
    found = session.ask(ask="exists", relation=[schema, identifier])
    if not found["exists"]:
        return None
    return adapter.Relation.create(schema=schema, identifier=identifier, type="table")


def _get_columns(session: Session, adapter: Any, relation: Any) -> Any:
    found = session.ask(ask="columns", relation=[relation.schema, relation.identifier])
    return _columns(adapter, found["columns"])


def _get_query_columns(session: Session, adapter: Any, sql: str) -> Any:
    return _columns(adapter, session.ask(ask="rows", sql=sql, limit=0)["columns"])


def _columns(adapter: Any, columns: list[list[str]]) -> Any:
    return [adapter.Column(column=name, dtype=type_) for name, type_ in columns]


_ANSWERS: dict[str, Callable[..., Any]] = {
    "execute": _execute,
    "get_relation": _get_relation,
    "get_columns_in_relation": _get_columns,
    "get_column_schema_from_query": _get_query_columns,
}
_TYPES: dict[str, Callable[[Any], Any]] = {
    "decimal": Decimal,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "bytes": bytes.fromhex,
    "list": lambda values: [_decode(one) for one in values],
    "map": lambda pairs: {str(_decode(key)): _decode(value) for key, value in pairs},
}


def _decode(value: Any) -> Any:
    """Convert the JSON of `answers.encode_value` back to the value."""
    if isinstance(value, dict):
        ((kind, inner),) = value.items()
        return _TYPES[kind](inner)
    return value


def _outermost_macro() -> tuple[str, str]:
    """Find the macro that the node's own code calls, and return its package and name."""
    # This is the first macro in the call stack.
    from dbt.clients.jinja import MacroGenerator

    found, frame = ("", ""), sys._getframe()
    while frame is not None:
        called = frame.f_locals.get("self")
        if isinstance(called, MacroGenerator):
            found = called.macro.package_name, called.macro.name
        frame = frame.f_back  # type: ignore[assignment]
    return found


_OPTIONS_TEXT = os.environ.get("_VDE_COMPILE")
if _OPTIONS_TEXT:
    _OPTIONS = json.loads(_OPTIONS_TEXT)
    # A dbt of other modules compiles as it does alone: the first introspective node stops it.
    with suppress(ImportError, AttributeError):
        change_compile(Session(Path(_OPTIONS["file"]), _OPTIONS["command"], _OPTIONS["path"]))
