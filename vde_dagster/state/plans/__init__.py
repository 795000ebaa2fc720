"""Plans, the snapshots of their models, and what audits found."""
