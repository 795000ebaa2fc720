"""Reading, writing and deleting files of the warehouse, and finding damaged files."""
