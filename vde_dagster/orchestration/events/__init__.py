"""Events in Dagster: records of the state's outbox, one projector, and its three callers.

Whoever changes the state writes records to its outbox in the same transaction: plans, rejections,
failures, fills, publications (applies, rollbacks, frozen environments), audits and unit tests.
`projector` makes of each what Dagster stores: events (`fills`, `publication`, `checks`,
`plans`), partitions that come or go, partitions that turn red.

- A run tells what it has recorded itself, as it goes on and into its own step (`applying`).
- The sensor is a consumer with a cursor, beside exporters (`consumer`): it tells the records of
  everybody else, and of runs that did not end well, each unless Dagster has it (`records`).
- `vde sync`, and a sensor without a cursor, compare everything (`sync`).

Every event says of what it was made (`provenance`), by which staleness is exact.
"""
