"""Macros, variables and Jinja: what `@` and `{{ }}` mean in the text of a model.

Text in, text out: macros stand for tables, clauses or half a statement, so they are expanded
before any parser, and every piece knows where in the file it came from (`sql/edits`). Errors
are `ProjectError`s that point at the call.
"""
