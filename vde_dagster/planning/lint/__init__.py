"""Rules that every model of a project may be held to; each is a function in a module of its own."""

from __future__ import annotations

LINT_VERSION = "1"
"""Raised whenever rules find more, or less: what is remembered of models is looked at again."""

RULES = (
    "ambiguousorinvalidcolumn",
    "cronintervalalignment",
    "invalidselectstarexpansion",
    "noambiguousprojections",
    "nomissingaudits",
    "nomissingdescription",
    "nomissingexternalmodels",
    "nomissinggrain",
    "nomissingowner",
    "nomissingunittest",
    "noselectstar",
)
"""The names of the rules that there are without any of the project's own."""
