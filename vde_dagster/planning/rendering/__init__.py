"""Rendering: the SQL of queries, statements and views, for Spark and for other readers of views."""
