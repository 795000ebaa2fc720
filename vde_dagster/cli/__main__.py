"""`python -m vde_dagster.cli` is `vde`."""

from vde_dagster.cli.entry import main

main()
