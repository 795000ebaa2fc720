"""Plug-ins of this distribution, one folder each; no other part of the package imports them.

Like other plug-ins, they are entry points, imported when a project or a command needs them.
"""
