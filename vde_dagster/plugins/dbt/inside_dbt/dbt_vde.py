"""A compile that leaves out nodes whose code needs an answer of the warehouse, and continues.

dbt imports this module when it looks for its plug-ins. Each call of `adapter.…` that dbt itself
does not make while it parses asks the warehouse. Such a call ends the compile of its node; dbt
then goes to the next one, where it would end the whole compile. The nodes are written to the file
that the variable `VDE_DBT_ASKED` names. Without that variable nothing is changed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

plugins: list[Any] = []
"""dbt's name for plug-ins of a module; there are none."""
_NEEDS_NO_WAREHOUSE = frozenset(
    {"get_hard_deletes_behavior", "get_incremental_strategy_macro", "standardize_grants_dict"}
)
"""Methods that dbt does not call while it parses although they read no table."""


class AsksWarehouseError(BaseException):
    """A question that the code of a node asks the warehouse while it is compiled.

    Not an `Exception`, as dbt and adapters catch those on the way and continue or raise others.

    Args:
        macro: Package and name of the macro that the code calls; empty where it calls none.
    """

    def __init__(self, method: str, macro: tuple[str, str]) -> None:
        super().__init__(method)
        self._method, self._macro = method, macro

    def call(self, own_packages: list[str]) -> str:
        """Return what the code calls, as it is written there."""
        package, name = self._macro
        if not name:
            return f"adapter.{self._method}"
        return name if package in own_packages else f"{package}.{name}"


class Asked:
    """The nodes that were left out, by unique id, each with what it calls."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._nodes: dict[str, str] = {}
        self._write()

    def add(self, unique_id: str, call: str) -> None:
        """Note a node."""
        with self._lock:
            self._nodes[unique_id] = call
            self._write()

    def _write(self) -> None:
        self._path.write_text(json.dumps(self._nodes), encoding="utf-8")


def change_compile(asked: Asked) -> None:
    """Let questions end the compile of their node alone."""
    from dbt.adapters.exceptions.connection import InvalidConnectionError
    from dbt.adapters.factory import get_adapter_package_names
    from dbt.context.providers import RuntimeDatabaseWrapper
    from dbt.task.compile import CompileRunner

    of_adapter, compiled = RuntimeDatabaseWrapper.__getattr__, CompileRunner.compile

    def get(self: Any, name: str) -> Any:
        found = of_adapter(self, name)
        asks = name in self._adapter._parse_replacements_ and name not in _NEEDS_NO_WAREHOUSE

        def refuse(*given: Any, **named: Any) -> Any:
            raise AsksWarehouseError(name, _outermost_macro())

        return refuse if asks else found

    def compile_node(self: Any, manifest: Any) -> Any:
        try:
            return compiled(self, manifest)
        except (AsksWarehouseError, InvalidConnectionError) as error:
            call = "adapter"
            if isinstance(error, AsksWarehouseError):
                own = [self.node.package_name, *get_adapter_package_names(self.adapter.type())]
                call = error.call(own)
            asked.add(self.node.unique_id, call)
            self.node.compiled, self.node.compiled_code = False, None
            return self.node

    RuntimeDatabaseWrapper.__getattr__ = get
    CompileRunner.compile = compile_node


def _outermost_macro() -> tuple[str, str]:
    """Return the package and name of the first macro on the way from a node's code to here."""
    from dbt.clients.jinja import MacroGenerator

    found, frame = ("", ""), sys._getframe()
    while frame is not None:
        called = frame.f_locals.get("self")
        if isinstance(called, MacroGenerator):
            found = called.macro.package_name, called.macro.name
        frame = frame.f_back  # type: ignore[assignment]
    return found


_FILE = os.environ.get("VDE_DBT_ASKED")
if _FILE:
    change_compile(Asked(Path(_FILE)))
