"""Reading and changing the metadata of tables and views, mostly in pure functions."""
