"""What the words of files stand for: where they are defined and used, what may stand, renames."""
