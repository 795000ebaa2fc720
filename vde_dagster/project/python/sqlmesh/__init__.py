"""Names that Python files of SQLMesh projects import from `sqlmesh`, installed or not.

A name without a counterpart here is missing from these modules: importing it is an ImportError at
the import's line.
"""
