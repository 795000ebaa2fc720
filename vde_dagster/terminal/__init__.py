"""Reports and rows drawn by Rich, for the command line and for programs next to it."""
