"""The words of files: what they refer to, their definitions and uses, completion and renames."""
