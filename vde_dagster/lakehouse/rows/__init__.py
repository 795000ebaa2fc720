"""Reading, filtering and sorting of a table's rows without an engine.

`row_filters` parses a condition. `bind_filter` evaluates it on rows and selects files that may have
matching rows. `scan` reads the files, and `row_order` sorts the rows.
"""
