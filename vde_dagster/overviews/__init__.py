"""Overviews of environments and of a project, as values: what is published, and its history.

`environments.py` writes tables and sentences about versions, rollbacks and the janitor's removals;
`documentation` gathers a project as one document. Both read results of `execution`; the texts of a
plan are in `reports`.
"""
