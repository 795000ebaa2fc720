"""Physical tables as values: identity, columns, changes in place, and reads of earlier states."""
