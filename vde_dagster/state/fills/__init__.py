"""What is filled in physical tables, in which commits, and what has to be computed again."""
