"""CI of pull requests: each is built in its own environment, and published when it is merged.

`checking` checks a pull request, `deploying` publishes a merged commit, `forges` writes comments
and checks to GitHub, GitLab or Git.
"""
