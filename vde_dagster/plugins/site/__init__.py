"""A project's documentation as a static site: `vde docs build`, see docs/site.md.

The pages need no server: their data is loaded by script tags, and inserted only as text.
"""
