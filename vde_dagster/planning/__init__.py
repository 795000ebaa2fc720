"""Pure functions that turn a project's models into a plan, without I/O or a clock.

Subpackages, lowest layer first: `intervals`, `tables`, `snapshots`, `environments`; then `kinds`,
`checks` and `changes`; then `rendering` and `plan`.
"""
