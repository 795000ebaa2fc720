"""What may be forgotten, and what reaches what is kept."""
