"""Modules that replace `sqlmesh` in Python files of SQLMesh projects, installed or not.

Importing a name that is missing here is an ImportError at the line of the import.
"""
