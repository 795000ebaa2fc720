"""SQLMesh's configuration files, and what they mean for a project's settings."""
