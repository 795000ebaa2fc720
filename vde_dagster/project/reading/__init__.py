"""From the text of one file to what it defines.

Errors are `ProjectError`s that point at the place; paths are relative to the project's root.
"""
