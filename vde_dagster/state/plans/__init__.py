"""Plans, the snapshots of their models, and the results of audits."""
