"""The grammar of the Spark that is installed: whether it takes a text, asked without a JVM.

`spark` reads it out of Spark's own classes (`compiled`) and cuts a text into tokens, `recogniser`
says how far the grammar takes them. What Spark's parser refuses behind its grammar is in `literals`
for texts with a type, and in `semantics.checks.refused_forms`.

SQLGlot's parser follows the grammar by `tokens` and `precedence`; `strings` reads string literals.
"""
