"""Pages in Dagster: this room composes all Markdown that Dagster shows, from reports and rows."""
