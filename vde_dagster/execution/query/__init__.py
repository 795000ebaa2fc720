"""Queries of an environment, or of one of its versions, and the rules for them."""
