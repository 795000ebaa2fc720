"""Reports and rows drawn by Rich, for the command line and for other programs."""
