"""Faults of Dagster's programs, by its storage: `python -m benchmarks.dagster_faults`.

A webserver and two daemons work on a project whose engine needs no JVM. The location is reloaded
during an apply, a daemon is killed and the webserver restarts during a backfill, and two daemons
start with a run that waits. Each scenario checks that nothing is filled twice or lost, and that the
pages show the state; the seconds follow. `--storage postgres` needs dagster-postgres with psycopg2,
and starts a server; `batched` is the package's SQLite.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import yaml

from benchmarks.dagster_recording import STORAGES
from vde_dagster.orchestration.instance import INSTANCE_CONFIG
from vde_dagster_tests.orchestration.test_server_faults import FAULTS, open_place
from vde_dagster_tests.state.postgres_server import PostgresServer


@contextmanager
def instance_config(storage: str) -> Iterator[str]:
    """Yield the package's `dagster.yaml` with another storage, whose server runs meanwhile."""
    config = yaml.safe_load(INSTANCE_CONFIG.read_text())
    del config["storage"]
    config |= deepcopy(STORAGES[storage])
    if "postgres" not in storage:
        yield yaml.safe_dump(config)
        return
    server = PostgresServer()
    try:
        url = server.url(server.create_database())
        url = url.replace("postgresql:", "postgresql+psycopg2:")
        config["storage"]["custom"]["config"] = {"postgres_url": url}
        yield yaml.safe_dump(config)
    finally:
        server.stop()


def main() -> None:
    """Run every scenario once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--storage", choices=STORAGES, default="postgres")
    storage = parser.parse_args().storage
    with (
        tempfile.TemporaryDirectory() as folder,
        instance_config(storage) as config,
        open_place(Path(folder), config) as place,
    ):
        for fault in FAULTS:
            began = time.perf_counter()
            fault(place)
            name = fault.__name__.removeprefix("test_").replace("_", " ")
            print(f"{storage}: {name}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
