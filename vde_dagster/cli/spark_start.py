"""Telling who waits at a terminal that Spark is being started, which takes seconds."""

from __future__ import annotations

import logging
import sys
from typing import Final

LOGGER: Final = "vde_dagster.spark.session"


class _OnTerminal(logging.Handler):
    """Prints to whatever stderr is by then: bars of progress put themselves in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message in a line of its own."""
        print(self.format(record), file=sys.stderr, flush=True)


def announce_spark() -> None:
    """Print a line on stderr when Spark starts and when it is there, if that is a terminal."""
    logger = logging.getLogger(LOGGER)
    told = any(isinstance(handler, _OnTerminal) for handler in logger.handlers)
    if told or not sys.stderr.isatty():
        return
    logger.setLevel(logging.INFO)
    logger.addHandler(_OnTerminal())
