"""`python -m vde_dagster.cli` is `vde`."""

from vde_dagster.cli.app import main

main()
