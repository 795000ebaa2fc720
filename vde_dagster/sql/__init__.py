"""Spark SQL as text, tokens and trees, read as Spark reads it.

Spark runs what the author wrote; SQLGlot is for understanding. `reading` makes a tree in which
every call has the name, and every literal the text, that was written (`grammar.tokens` rewrites
tokens, not text), grouped as Spark's grammar groups operators (`grammar.precedence`). No SQL is
written from such a tree: texts are changed in places (`edits`), also forms that SQLGlot takes and
Spark does not (`spark_forms`). Only queries of `other_dialects` are written by SQLGlot, and refused
where it would read its own text otherwise. A query is parsed once: whoever loads and plans owns
the trees (`ParsedQueries`).
"""
