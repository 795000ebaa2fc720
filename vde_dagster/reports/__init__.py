"""Reports as values, which the terminal and Dagster print.

A `Report` has a title, warnings, and sections of rows whose cells are marked by their meaning.
`terminal/reports.py` prints it with Rich, `markdown.py` writes it as a comment on a pull request,
`orchestration/pages` as a page of Dagster.
"""
