"""Spark SQL as text, tokens and syntax trees.

Spark runs the author's text, and SQLGlot is used only to analyze the text. `reading` parses a query
to a tree. In the tree, every call has the name and every literal the text that the author wrote
(`grammar.tokens`), and operators are grouped as in Spark's grammar (`grammar.precedence`). SQL is
never generated from such a tree. Instead, texts are edited in place (`edits`), for example where
SQLGlot accepts a form that Spark does not have (`spark_forms`). SQLGlot generates only queries of
`other_dialects`; a query is refused if SQLGlot parses its own output differently. A query is parsed
only once, and `ParsedQueries` keeps the trees between loading and planning a project.
"""
