"""Reports as values: a title, warnings, and sections of rows with marked cells.

`terminal/reports.py` prints a `Report` with Rich, `markdown.py` writes it as a comment on a pull
request, and `orchestration/pages` as a page of Dagster.
"""
