"""From the text of one file to what it defines."""
