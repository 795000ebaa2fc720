"""Linter for a project's models, with built-in rules and the project's own."""
