"""Who did what: the log as a chain of hashes, and what the database enforces itself.

`log` writes and checks the chain, and `guards` is what the database itself refuses or fills in.
"""
