"""The state's database: connections, transactions, leases, the schema and its migrations.

Beside the outbox, from which others are told, `log` has who did what as a chain of hashes, `rights`
who may do what, and `guards` what the database itself refuses.
"""
