"""The publish transaction, and what follows it in catalogs of others.

`prepare` makes every metadata file that a publication needs, `publish` changes all pointers,
the environment and the plan in one transaction, `pins` finds the snapshots that the version
holds.
A catalog outside the state's database follows the state's decision: `finish_publication` moves
its pointers, or all in one commit where it can, and makes the change of a table (`publication`)
anew where that has moved meanwhile; `mirror` writes views that follow environments there.
`shown_tables` serves projects where production has tables in place of views.
"""
