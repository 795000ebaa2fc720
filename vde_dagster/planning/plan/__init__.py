"""Plans: the intervals to fill and the views to publish that bring an environment to a target.

`plan_request` is what people ask for, `planner` makes the plan of it and of the warehouse's
state: `assign_tables` finds the table of each model, `missing_intervals` and `parent_coverage`
the ranges to fill, `compare_snapshots` the differences, `publication` the views.
`forward_only` lets a snapshot go on with production's table, of which a preview is a branch;
`restatement` plans filled ranges again, and `affected_intervals` says what follows where.
"""
