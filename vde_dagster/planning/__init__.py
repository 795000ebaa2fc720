"""Values and pure functions from a project's models to a plan, without I/O and without a clock.

The rooms from the bottom: `intervals`, `tables`, `snapshots`, `environments`; then `kinds`,
`checks` and `changes`; then `rendering` and `plan`. Building snapshots stands beside them, as
it needs several.
"""
