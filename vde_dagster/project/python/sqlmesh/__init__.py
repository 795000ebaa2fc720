"""Modules that replace `sqlmesh` in SQLMesh projects' Python files, even if SQLMesh is installed.

Importing a name that is missing here is an ImportError at the line of the import.
"""
