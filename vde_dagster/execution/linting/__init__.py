"""Linting a project's models by its rules and its own ones."""
