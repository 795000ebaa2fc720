"""Physical tables as values: identity, columns, reads of earlier states, and comparison."""
