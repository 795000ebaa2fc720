"""Assets: one per model, and the control assets for viewing and approving plans."""
