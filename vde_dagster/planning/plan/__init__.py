"""Plans: the intervals to fill and the views to publish that bring an environment to a target.

`planner` makes a plan from a `plan_request` and the warehouse's state: `assign_tables` finds the
table of each model, `missing_intervals` and `parent_coverage` the ranges to fill,
`compare_snapshots` the differences, `publication` the views. `forward_only` lets a snapshot reuse
production's table in place, previewed on a branch. `restatement` plans filled ranges again, and
`affected_intervals` finds the ranges that depend on them.
"""
