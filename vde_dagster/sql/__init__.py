"""Spark SQL as text, tokens and syntax trees.

Spark runs the author's text; SQLGlot only analyzes it. `reading` parses a query to a tree. Its
calls and literals have the author's text (`grammar.tokens`), and its operators are grouped as in
Spark's grammar (`grammar.precedence`). Queries to run are not generated from such a tree. Instead,
texts are edited in place (`edits`), for example where SQLGlot accepts a form that Spark does not
have (`spark_forms`). SQLGlot generates queries only from trees of `parse_plain`, for example in
`other_dialects`, where a query is refused if SQLGlot parses its own output differently.
`ParsedQueries` keeps trees between loading and planning a project, to parse a query only once.
"""
