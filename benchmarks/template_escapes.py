"""Respelled templates that reach for Python, as models: `python -m benchmarks.template_escapes`.

Templates come from `vde_dagster_tests/fixtures/jinja_escapes.yaml`. The search writes their names
as subscripts, in parts, with escapes, reversed or cut, and puts each expression into an output, a
condition, a loop, a macro or a filter. It prints how many templates it loaded, and each rendered
one. A test tries a small number of templates in each commit.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from vde_dagster_tests.project.escape_search import search

AT_ONCE = 500


def main(count: int, seed: str) -> int:
    """Load templates, and print those that are rendered.

    Args:
        count: How many templates.
        seed: Decides them.

    Returns:
        How many are rendered.
    """
    rng, tried, rendered = random.Random(seed), 0, 0
    while tried < count:
        with tempfile.TemporaryDirectory() as folder:
            found = search(rng, min(AT_ONCE, count - tried), Path(folder))
        tried += found.templates
        rendered += len(found.rendered)
        for text in found.rendered:
            print(f"  RENDERED: {text}", flush=True)
    print(f"seed {seed}: {tried} templates, {rendered} are rendered")
    return rendered


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Load templates that reach too far.")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", default="1")
    sys.exit(min(1, main(**vars(parser.parse_args()))))
