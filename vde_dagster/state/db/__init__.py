"""The state's database: connections, transactions, leases, the schema and its migrations.

`database` serves SQLite (`sqlite`) and PostgreSQL (`postgres`). `outbox` delivers changes to
readers, `log` records all acts as a chain of hashes, `rights` grants permissions to roles, and
`guards` are triggers and views that reject invalid writes.
"""
