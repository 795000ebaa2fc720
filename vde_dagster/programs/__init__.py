"""Programs of the product next to the command line, one room each; they use the whole core.

Entry points of `pyproject.toml` lead to them, and none is imported before its first use.
"""
