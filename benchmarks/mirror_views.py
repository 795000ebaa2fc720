"""How long a mirror of views takes to follow: `python -m benchmarks.mirror_views [--views 200]`.

Publications that make every view, and that replace every view, on Iceberg's own test server of the
REST protocol, with the state in SQLite; and the same publications without a mirror.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from vde_dagster.lakehouse.catalogs.rest import RestCatalog
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.publishing.publication import Publication
from vde_dagster.state.store import StateStore
from vde_dagster_tests.lakehouse.rest_process import new_part, running_rest_server
from vde_dagster_tests.state.builders import environment, view


def main(views: int = 200, rounds: int = 3) -> None:
    """Print seconds by kind of publication, the least of the rounds.

    Args:
        views: How many views the environment has.
        rounds: How often all is done.
    """
    found: dict[str, list[float]] = {}
    with running_rest_server() as uri:
        for _ in range(rounds):
            for mirrors in (False, True):
                with tempfile.TemporaryDirectory() as folder:
                    _measure(Path(folder), uri, views, mirrors, found)
    for what, seconds in found.items():
        least = min(seconds)
        print(f"{what}: {least:.2f} s, {least / views * 1000:.1f} ms a view")


def _measure(
    folder: Path, uri: str, count: int, mirrors: bool, found: dict[str, list[float]]
) -> None:
    store = StateStore.open(f"sqlite:///{folder / 'vde.db'}")
    catalog = RestCatalog(
        new_part(uri), "lakehouse", str(folder), store.database.effects, mirrors=mirrors
    )
    lakehouse = Lakehouse(store, "lakehouse", str(folder), catalog=catalog)
    for version, what in enumerate(("made", "replaced")):
        views = tuple(view(f"v{number}", f"SELECT {version} AS a") for number in range(count))
        began = time.perf_counter()
        lakehouse.publish(Publication(environment("prod"), version, views))
        took = time.perf_counter() - began
        name = f"{count} views {what}, {'with' if mirrors else 'without'} a mirror"
        found.setdefault(name, []).append(took)
    behind = store.mirror.standings().get("prod")
    assert not mirrors or (behind is not None and behind.since is None)
    store.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--views", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    main(**vars(parser.parse_args()))
