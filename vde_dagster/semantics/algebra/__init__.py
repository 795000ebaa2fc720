"""The relational algebra: its nodes, normal forms of expressions, and keys of relations."""
