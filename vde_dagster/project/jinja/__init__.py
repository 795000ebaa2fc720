"""Jinja in SQL files: blocks of it become SQL text before anything else reads them."""
