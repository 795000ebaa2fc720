"""Documentation of a project as one value, for the site and for exports to other systems.

`values` defines the document: plain frozen dataclasses that `msgspec` writes as JSON and describes
as a JSON Schema. `gather` builds it from an opened workspace with a few queries of the state,
without an engine; `environments` builds the parts about environments, with the time of each version
and the version that it replaced. The same project, state and instant give an equal document.
"""
