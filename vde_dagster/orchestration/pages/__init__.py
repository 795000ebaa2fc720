"""What is read on Dagster's pages: plans, reports and rows as Markdown."""
