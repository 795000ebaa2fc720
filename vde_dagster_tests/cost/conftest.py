"""The command line, called in this process."""

from vde_dagster_tests.cli.conftest import vde

__all__ = ["vde"]
