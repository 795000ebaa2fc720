"""The grammar of the Spark that is installed: whether it takes a text, asked without a JVM.

`spark.py` reads it out of Spark's own classes (`compiled.py`), `lexer.py` cuts a text
into tokens, and `recogniser.py` says how far the grammar takes them. What Spark's parser refuses
behind its grammar is `literals.py` for texts with a type, and `semantics.checks.refused_forms`.
"""
