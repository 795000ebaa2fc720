"""A store per test, and the command line."""

from vde_dagster_tests.access.roles_world import published, untouched, world  # noqa: F401
from vde_dagster_tests.cli.conftest import vde  # noqa: F401
from vde_dagster_tests.state.conftest import (  # noqa: F401
    backend,
    clock,
    empty_database,
    empty_postgres,
    postgres,
    store,
    url,
)
