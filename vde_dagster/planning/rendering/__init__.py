"""Rendering of queries, statements and views as SQL, for Spark and for other readers of views."""
