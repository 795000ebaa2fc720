"""Iceberg tables as strategies use them: branches, commits, columns, and digests of rows."""
