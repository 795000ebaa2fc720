"""The public API: what plug-ins of other distributions import.

One module per subject. A name of a module's `__all__` keeps its meaning: it is changed or removed
only with a new minor version, one release after its use began to give a DeprecationWarning. All
other modules of `vde_dagster` may change with any release.

Project files and code locations import from `vde_dagster` itself.
"""

SINCE: dict[str, str] = {}
"""Release that added a name, for names that are newer than 0.1.0."""
