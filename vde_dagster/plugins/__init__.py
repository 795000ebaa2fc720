"""Plug-ins of this distribution, a room each: no other room imports them.

They are found by the entry points of `pyproject.toml`, as those of other distributions are, and
imported when a project or a command asks for them.
"""
