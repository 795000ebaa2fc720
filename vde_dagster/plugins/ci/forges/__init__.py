"""Forges: hosts of pull requests, with the comments and checks that a CI job writes."""
