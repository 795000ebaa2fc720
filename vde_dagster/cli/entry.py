"""Where `vde` begins: by the ready process where there is one, else here."""

from __future__ import annotations

import sys

from vde_dagster.spark.ready.client import run_ready


def main() -> None:
    """Run the command line and exit with its code: 0 done, 1 failed at work, 2 a mistake."""
    code = run_ready(sys.argv[1:])
    if code is not None:
        sys.exit(code)
    from vde_dagster.cli.app import main as run

    run()
