"""Checks, without a JVM, whether the grammar of the installed Spark accepts a text.

`spark` loads the grammar from Spark's own classes (`compiled`); `lexer` splits a text into tokens;
`recogniser` finds the first token that the grammar refuses. `literals` and
`semantics.checks.refused_forms` have further checks of Spark's parser.

`tokens` and `precedence` make SQLGlot's parser follow the grammar; `strings` reads string literals.
"""
