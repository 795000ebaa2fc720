"""The editor: mistakes and consequences of a file while it is typed, for any LSP client."""
