"""Rows without an engine: conditions as text, evaluated on Arrow; sorting; scans of a table.

`row_filters` parses a condition, `bind_filter` applies it to a table's rows and finds the files
that may have such rows, `scan` reads them, `row_order` finds the first ones.
"""
