"""Pages in Dagster: plans, reports and rows as Markdown."""
