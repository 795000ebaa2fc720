"""Random secrets of settings in texts of every form, masked: `python -m benchmarks.secret_texts`.

It prints how many texts it masked, and each text that shows a secret or half of it. A test tries a
small number of secrets in each commit (`vde_dagster_tests.secret_search`), and
`vde_dagster_tests/cli/test_secrets.py` searches the output of every command.
"""

from __future__ import annotations

import argparse
import random
import sys

from vde_dagster_tests.secret_search import search


def main(count: int, seed: str) -> int:
    """Mask texts around secrets, and print the texts that still show a secret.

    Args:
        count: How many secrets to try.
        seed: Decides the secrets and the texts.

    Returns:
        How many texts show a secret.
    """
    found = search(random.Random(seed), count)
    for text in found.shown:
        print(f"  SHOWN: {text}")
    print(f"seed {seed}: {count} secrets in {found.texts} texts, {len(found.shown)} show one")
    return len(found.shown)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Mask random secrets in texts.")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", default="1")
    sys.exit(min(1, main(**vars(parser.parse_args()))))
