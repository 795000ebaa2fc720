"""Overviews of environments and projects, as values.

`environments.py` builds tables and sentences about versions, rollbacks and cleanups;
`documentation` describes a project as one document. Texts of plans are in `reports`.
"""
