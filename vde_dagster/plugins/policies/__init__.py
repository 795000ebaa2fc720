"""Policies: a project's rules for plans, written as CEL expressions in files.

`settings` reads the table `[tool.vde.policies]` and `rules` reads the files. `gate` evaluates the
rules on every plan and before every apply, and provides the values for their expressions.
"""
