"""Files of the warehouse: written once, read, deleted, and damage said by a file's name."""
