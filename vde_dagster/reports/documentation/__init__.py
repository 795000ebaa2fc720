"""The documentation of a project as one value: what the site and exports for other systems show.

`values` has the document: plain frozen dataclasses that `msgspec` writes as JSON and describes as
a JSON Schema. `gather` makes one of an opened workspace by a few queries of the state, without an
engine; `environments` makes the parts that say which environment shows which version, since when
and instead of what. The same project, state and instant give an equal document.
"""
