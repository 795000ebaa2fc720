"""The state's database: connections, transactions, leases, the schema and its migrations."""
