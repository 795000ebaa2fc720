"""A project's documentation as a static site: `vde docs build`, see docs/site.md.

`compact` turns a document into scripts, `layout` says where models stand in the graph, `build`
writes them beside the files of `shell`, which are the same for every project. The pages make no
request and need no server: what they show is loaded by script tags, and set as text alone.
"""
