"""Plug-ins of this distribution, one folder each; no other part of the package imports them.

They are found through the entry points of `pyproject.toml`, like other distributions' plug-ins, and
imported when a project or a command needs them.
"""
