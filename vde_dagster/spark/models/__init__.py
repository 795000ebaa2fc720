"""Tables of models, and the computation of their rows by queries and Python functions."""
