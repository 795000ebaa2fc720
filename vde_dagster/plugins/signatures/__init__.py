"""Signatures of plans: if a project requires them, only signed plans are applied.

`signing` signs and verifies, `ledger` stores signatures in the state's database, and `gate`
requires them before every apply.
"""
