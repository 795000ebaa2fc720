"""The publish transaction, and the steps that follow it in outside catalogs.

`prepare` makes every metadata file of a publication, `publish` changes all pointers, the
environment and the plan in one transaction, `pins` finds the snapshots that the version pins.
A catalog outside the state's database follows the state's decision: `finish_publication` moves
its pointers, or all in one commit if supported, and repeats the change of a table (`publication`)
if the table has moved meanwhile; `mirror` writes views that follow environments there.
`shown_tables` serves projects whose production has tables in place of views.
"""
