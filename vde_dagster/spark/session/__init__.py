"""Spark's session: started, joined or connected to, and why one has ended."""
