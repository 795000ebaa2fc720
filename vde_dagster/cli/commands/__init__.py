"""One module per group of commands; heavy imports are inside the functions."""
