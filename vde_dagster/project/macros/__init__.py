"""Macros and variables: what `@` means in the text of a model."""
