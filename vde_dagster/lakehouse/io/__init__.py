"""Files of the warehouse: written once, read, deleted, and reported by name if damaged."""
