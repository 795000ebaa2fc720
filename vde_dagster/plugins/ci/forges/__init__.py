"""Forges: hosts of pull requests, with a comment on each and a check of the newest commit."""
