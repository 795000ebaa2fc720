"""Snapshots, intervals, and the plan from a project to an environment. Pure: no I/O, no clock."""
