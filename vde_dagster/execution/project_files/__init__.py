"""Changes of a project's own files: formatting, fixes, declared tables and descriptions."""
