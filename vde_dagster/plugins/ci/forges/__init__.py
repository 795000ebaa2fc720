"""Forges: where a pull request is, which gets one comment and a check of its newest commit.

`forge` is the protocol, `rest` asks a server with a token, `github`, `gitlab` and `plain_git` are
those there are, and `choose` takes the one that a job runs for.
"""
