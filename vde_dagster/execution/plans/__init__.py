"""Plans of a project or of an environment as it was published, gathered from its state store."""
