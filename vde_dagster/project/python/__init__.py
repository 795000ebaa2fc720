"""Python files of a project: executing them, and what they read while they run."""
