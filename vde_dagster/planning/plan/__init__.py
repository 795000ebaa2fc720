"""Plans: the intervals to fill and the views to publish for an environment.

`planner` makes a plan from a `plan_request` and the warehouse's state. `assign_tables` chooses each
model's table. `missing_intervals` and `parent_coverage` determine the ranges to fill.
`compare_snapshots` finds changed models, and `publication` finds changed views. `forward_only` lets
a snapshot reuse production's table in place. `restatement` plans to fill filled ranges again, and
`affected_intervals` finds the ranges that depend on them.
"""
