"""Outside systems kept equal to published views, see docs/sync.md.

`definitions` reads `syncs.yaml`, `changed_rows` says what one version shows otherwise than another,
`syncs` takes that to a sink in batches and remembers in the sink's `ledger` how far it is. A sink
(`sink` has the protocol) is found on entry points; `postgresql` and `http` are here.
"""
