"""The revisions, one a module."""
