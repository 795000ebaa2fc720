"""Policies: a project's rules for plans, written as CEL expressions in files.

`gate` evaluates the rules of `[tool.vde.policies]` on every plan and before every apply.
"""
