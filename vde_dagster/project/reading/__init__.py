"""Reading of one file: from its text to its definitions, or to errors with their place."""
