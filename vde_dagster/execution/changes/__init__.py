"""Changes of rows of a published view between two versions of its environment."""
