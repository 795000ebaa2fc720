"""The assets: one per model, and those by which plans are seen and approved."""
