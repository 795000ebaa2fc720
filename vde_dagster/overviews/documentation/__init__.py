"""Documentation of a project as one value, for the docs site and for exports.

`values` defines the document. `gather` builds it from an opened workspace, without an engine;
`environments` builds its parts about environments. The same project, state and instant give an
equal document.
"""
