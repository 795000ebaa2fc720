"""One module per group of commands; each imports what is heavy inside its functions."""
