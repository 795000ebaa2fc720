"""Macros, variables and Jinja: the expansion of `@` and `{{ }}` in the text of a model.

Expansion maps text to text: a macro can replace a table, a clause or part of a statement, so
macros are expanded before parsing. For every piece of the expanded text, its origin in the file is
recorded (`sql/edits`).
"""
