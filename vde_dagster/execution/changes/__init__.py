"""Telling what changed in a published view between two versions of its environment."""
