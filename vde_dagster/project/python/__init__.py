"""Python files of a project: their execution, and the files and variables that they read.

Errors are `ProjectError`s that point at the line in the project; paths are relative to its root.
"""
