"""CI of pull requests: builds each in a separate environment, and publishes it once merged.

`checking` checks a pull request, `deploying` publishes a merged commit, `forges` writes comments
and checks to GitHub, GitLab or Git.
"""
