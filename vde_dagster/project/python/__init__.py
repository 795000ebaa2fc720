"""Python files of a project: executing them, and what they read while they run.

Errors are `ProjectError`s that point at the line in the project; paths are relative to its root.
"""
