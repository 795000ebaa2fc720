"""The public API: what plug-ins of other distributions import.

One module per subject. A name in a module's `__all__` is changed or removed only in a minor
version. The release before that version already gives a DeprecationWarning for each use of the
name. All other modules of `vde_dagster` may change with any release.

Project files and code locations import from `vde_dagster` itself.
"""

SINCE: dict[str, str] = {}
"""Release that added a name, for names that are newer than 0.1.0."""
