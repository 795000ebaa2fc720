"""The revisions, one per module."""
