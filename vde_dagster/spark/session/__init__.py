"""Spark's session: how it is started, joined or connected to, and why it ended."""
