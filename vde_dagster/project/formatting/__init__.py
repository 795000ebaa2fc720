"""SQL formatting, which changes only spaces, line ends and the case of words."""
