"""A project's documentation as a static site: `vde docs build`, see docs/site.md.

`compact` turns a document into scripts, `layout` places models in the graph, `build` writes the
scripts next to the files of `shell`, which are the same for every project. The pages make no
requests and need no server: their data is loaded by script tags, and inserted only as text.
"""
