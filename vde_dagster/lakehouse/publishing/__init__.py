"""The publish transaction, and the steps that follow it in outside catalogs.

`prepare` makes every metadata file of a publication, `publish` changes all pointers, the
environment and the plan in one transaction, `pins` finds the snapshots that the version pins.
A catalog outside the state's database follows the state's decision. `finish_publication` moves the
catalog's pointers one by one, or all in one commit if the catalog supports that. If a table has
moved meanwhile, it makes the table's change (`publication`) again. `mirror` writes the views of
environments to such a catalog.
`shown_tables` serves projects whose production has tables in place of views.
"""
