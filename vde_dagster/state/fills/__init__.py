"""Filled ranges of physical tables, their commits, and ranges to compute again."""
