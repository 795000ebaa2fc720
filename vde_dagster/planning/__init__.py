"""Values and pure functions from a project's models to a plan, without I/O and without a clock.

The rooms from the bottom: `intervals`, `tables`, `snapshots`, `environments`; then `kinds`,
`checks` and `changes`; then `rendering` and `plan`. The two modules that build snapshots lie
directly in this package, because they use several rooms.
"""
