"""Environments, their versions, what those pinned, and how they were published."""
