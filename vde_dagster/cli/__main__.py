"""Entry point of `python -m vde_dagster.cli`, equal to `vde`."""

from vde_dagster.cli.entry import main

main()
