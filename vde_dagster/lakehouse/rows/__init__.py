"""Rows without an engine: conditions as text, judged on Arrow; order; scans of a table's state.

`row_filters` reads a condition, `bind_filter` says which rows of a table fulfil it and which files
may have such rows, `scan` reads them, `row_order` finds the first ones.
"""
