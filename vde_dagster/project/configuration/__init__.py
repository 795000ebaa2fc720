"""SQLMesh's configuration files, converted to a project's settings."""
