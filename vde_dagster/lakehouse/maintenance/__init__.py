"""The janitor, which deletes unused objects, and `vde fsck`, which finds damage."""
