"""Environments, their versions, the pins of these versions, and the record of publications."""
