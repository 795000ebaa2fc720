"""Physical tables: the ledger of everything that was ever created in the lakehouse."""
