"""Programs of the product next to the command line, one room each; they use the whole core. They
are entry points in `pyproject.toml`, imported at their first use.
"""
