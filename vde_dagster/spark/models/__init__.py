"""The rows of models: queries and Python functions, their digests, and audits of them."""
