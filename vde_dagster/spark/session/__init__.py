"""Spark sessions: starting them in a JVM or on a server, and explaining why they ended."""
