"""Plans of a project, or of an environment as published, based on the state store."""
