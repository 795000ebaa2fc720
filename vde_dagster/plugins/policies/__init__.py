"""Policies: a project's rules over plans, as expressions of CEL in files.

`settings` is the table `[tool.vde.policies]`, `rules` reads the files, `facts` is what expressions
see of a plan, `gate` asks the rules, for every plan and before every apply.
"""
