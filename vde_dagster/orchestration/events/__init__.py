"""Events in Dagster, projected from the records of the state's outbox.

Every change of the state writes records to its outbox in the same transaction: plans, rejections,
failures, fills, publications (applies, rollbacks, frozen environments), audits and unit tests.
`projector` turns each record into events (`fills`, `publication`, `checks`, `plans`), partitions to
add, and partitions to mark as failed. Events have three writers:

- A run writes the events of its records, in its step, while it works (`applying`).
- The sensor is a consumer with a cursor, like exporters (`consumer`). It writes the events of other
  processes and of runs that did not succeed, unless Dagster has these events already (`records`).
- `vde sync`, and a sensor without a cursor, compare everything (`sync`).

Materializations list their inputs (`provenance`), which makes Dagster's staleness exact.
"""
