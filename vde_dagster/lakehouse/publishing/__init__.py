"""The publish transaction, and the steps after it for a catalog outside the state's database.

`prepare` creates the content of metadata files. `publish` changes all pointers, the environment and
the plan in one transaction. `pins` finds the Iceberg snapshots that the new version pins.

For a catalog outside the state's database, `finish_publication` moves the pointers after the
transaction, and `mirror` writes the views of environments. `shown_tables` is for projects whose
production has tables in place of views.
"""
