"""Spark's session: started, joined or connected to, and the reasons when it ends."""
