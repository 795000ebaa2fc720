"""Refreshing a query's rows from the changes of the tables that it reads."""
