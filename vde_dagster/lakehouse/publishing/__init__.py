"""The publish transaction, and the steps after it for a catalog outside the state's database.

`prepare` creates the content of a publication's metadata files. `publish` changes all pointers, the
environment and the plan in one transaction. `pins` finds the snapshots that the new version pins.

If the catalog is outside the state's database, `finish_publication` moves its pointers after the
transaction: one by one, or in one commit if the catalog supports that. If a table has changed
meanwhile, the publication's change is computed again (`publication`). `mirror` writes the views of
environments to such a catalog. `shown_tables` is for projects whose production has tables in place
of views.
"""
