"""Execution of a project's Python files, and the files and variables that they read.

Errors of loading are `ProjectError`s with a place; paths are relative to the project's root.
"""
