"""Physical tables: the ledger of all tables that were created in the lakehouse."""
