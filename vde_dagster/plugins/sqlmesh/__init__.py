"""The names that Python files written for SQLMesh import from it, whether it is installed or not.

What has no counterpart here is missing from these modules, and importing it is an ordinary
ImportError at its line.
"""

from __future__ import annotations
