"""Binding: from syntax trees of queries to the relational algebra, with every name resolved."""
