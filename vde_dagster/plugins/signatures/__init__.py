"""Signatures of plans: if a project requires them, only signed plans are applied.

`settings` is the table `[tool.vde.signatures]`, `keys` creates and reads Ed25519 keys, `signing`
signs and verifies, `ledger` stores signatures by plan in the state's database,
`gate` requires them before every apply, `commands` are `vde keys make` and `vde plan sign`.
"""
