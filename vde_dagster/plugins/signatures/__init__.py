"""Signatures of plans: what somebody's key signed is what is applied, where a project asks for it.

`settings` is the table `[tool.vde.signatures]`, `keys` makes and reads Ed25519 keys, `signing` says
what is signed and whose signatures hold, `ledger` keeps them by plan in the state's database,
`gate` asks for them before every apply, `commands` are `vde keys make` and `vde plan sign`.
"""
