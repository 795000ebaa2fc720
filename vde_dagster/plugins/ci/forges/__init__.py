"""Forges: hosts of pull requests, with a comment on each and a check of the newest commit.

`forge` is the protocol, `rest` sends requests with a token, `github`, `gitlab` and `plain_git` are
the implementations, and `choose` selects the forge of the current job.
"""
