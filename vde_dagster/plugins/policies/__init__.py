"""Policies: a project's rules over plans, as expressions of CEL in files.

`settings` is the table `[tool.vde.policies]`, `rules` reads the files, `gate` says what expressions
see of a plan and asks the rules, for every plan and before every apply.
"""
