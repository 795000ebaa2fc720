"""SQL formatting: only blanks, line ends and the case of keywords change."""
