"""Macros, variables and Jinja: the expansion of `@` and `{{ }}` in the text of a model.

Expansion maps text to text: macros stand for tables, clauses or parts of statements, so they are
expanded before parsing, and every piece knows its origin in the file (`sql/edits`). Errors are
`ProjectError`s that point at the call.
"""
