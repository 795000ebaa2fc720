"""What makes tests quick whose subject is something else: the same work with less around it."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Engine, create_engine, event

from vde_dagster.project.loading import loader
from vde_dagster.state.db import database

_sqlite_engine = database._sqlite_engine


def read_in_fork(root: Path) -> CompletedProcess[str]:
    """Read a project as `load_project_isolated` does, in a fork instead of a new interpreter.

    A new one takes most of a second to import what this process has imported already.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                sys.stdout, sys.stderr = out, err
                code = loader.main([str(root)])
            except BaseException:
                traceback.print_exc(file=err)
            finally:
                out.flush()
                err.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        code = os.waitstatus_to_exitcode(status)
        return CompletedProcess([], code, out.read(), err.read())


def sqlite_engine_as_before(url: URL) -> Engine:
    """Connect to a SQLite file with the statements that were compiled for others.

    Each store has an engine of its own, which would compile them again; and no test cuts the power.
    """
    engine, first = _sqlite_engine(url), _first_engine()
    engine.dialect, engine._compiled_cache = first.dialect, first._compiled_cache

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA synchronous=OFF")

    return engine


_from_config = ScriptDirectory.from_config
_scripts: dict[str | None, ScriptDirectory] = {}


def scripts_as_before(config: Config) -> ScriptDirectory:
    """Return a folder of migrations with the scripts that were read from it before.

    Dagster reads all of its own for each instance, twice.
    """
    folder = config.get_alembic_option("script_location")
    if folder not in _scripts:
        _scripts[folder] = _from_config(config)
    return _scripts[folder]


@cache
def _first_engine() -> Engine:
    """An engine that has connected, so its dialect knows all of SQLite."""
    engine = create_engine("sqlite://", query_cache_size=2000)
    engine.connect().close()
    return engine
