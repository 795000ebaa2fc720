"""Execution of a project's Python files, and the files and variables that they read.

Errors are `ProjectError`s with a place in the project; paths are relative to the project's root.
"""
