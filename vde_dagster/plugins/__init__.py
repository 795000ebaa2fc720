"""Plug-ins of this distribution, one room each: no other room imports them.

They are found through the entry points of `pyproject.toml`, like other distributions' plug-ins, and
imported when a project or a command needs them.
"""
