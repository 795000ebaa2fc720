"""Entry point of `vde`: runs a command in a copy of a warm process (`spark.ready`) if possible."""

from __future__ import annotations

import sys

from vde_dagster.spark.ready.client import run_ready


def main() -> None:
    """Run the command line and exit with its code: 0 success, 1 failed work, 2 invalid input."""
    code = run_ready(sys.argv[1:])
    if code is not None:
        sys.exit(code)
    from vde_dagster.cli.app import main as run

    run()
