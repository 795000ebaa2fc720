"""SQL laid out anew: only blanks, line ends and the case of keywords change."""
