"""Binding: from the syntax tree of a query to the relational algebra, with names resolved."""
