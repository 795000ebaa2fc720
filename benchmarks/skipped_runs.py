"""How much work runs save that skip what has nothing new, beside what timestamps would save.

    python -m benchmarks.skipped_runs [--projects 20] [--days 30] [--seed 200000]

Random projects are run for days while others write the tables that they read: rows, nothing at
all, files written anew, rows that go and come back. Each is run twice, with and without skipping,
and compared table by table after every day. The work is that of models whose tables are made whole.
"""

from __future__ import annotations

import argparse

from vde_dagster_tests.planning.skips_oracle import Work, WrongSkipError, run_days


def main() -> int:
    """Run the projects; returns the number of wrong skips."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--projects", type=int, default=20)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--seed", type=int, default=200_000)
    args = parser.parse_args()
    work, wrong = Work(), 0
    for seed in range(args.seed, args.seed + args.projects):
        try:
            run_days(seed, work, args.days)
        except WrongSkipError as error:
            wrong += 1
            print(error)
    print(f"{args.projects} projects, {args.days} days, {work.due} whole tables were due")
    print(f"computed      {work.computed:6}  {1 - work.computed / work.due:.0%} saved")
    print(f"by timestamps {work.by_time:6}  {1 - work.by_time / work.due:.0%} saved")
    print(f"rows written  {work.rows:6}  of {work.rows_due}")
    print(f"wrong skips   {wrong:6}")
    return wrong


if __name__ == "__main__":
    raise SystemExit(main())
