"""SQLMesh's configuration files and their meaning for a project's settings."""
