"""A kind that the product does not have, in three modules, and what it goes through."""
