"""Language server: mistakes in a file and the effects of edits, while the file is typed."""
