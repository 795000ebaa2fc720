"""Pages in Dagster: all Markdown that Dagster shows, composed from reports and rows."""
