"""Spark SQL as text, tokens and trees, parsed according to Spark's grammar.

Spark runs the author's text; SQLGlot only analyzes it. `reading` builds a tree, where every call
keeps its written name and every literal its text (`grammar.tokens` rewrites tokens, not text), with
operators grouped as in Spark's grammar (`grammar.precedence`). SQL is never generated from such a
tree: texts are edited in place (`edits`), including forms that SQLGlot accepts and Spark does not
(`spark_forms`). SQLGlot generates only queries of `other_dialects`; a query is refused if SQLGlot
would parse its own output differently. A query is parsed once: the code that loads and plans a
project owns the trees (`ParsedQueries`).
"""
