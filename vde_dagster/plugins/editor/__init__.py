"""The editor: what a plan would say of a file, while it is typed, for any client of LSP."""
