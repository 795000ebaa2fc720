"""Reading of one file: from its text to its definitions.

Errors are `ProjectError`s that point at the place; paths are relative to the project's root.
"""
