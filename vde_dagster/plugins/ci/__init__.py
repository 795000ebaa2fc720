"""Pull requests: each is built in an environment of its own and told, and published when merged.

`settings` is the table `[tool.vde.ci]`, `forges` write comments and checks (GitHub, GitLab, plain
Git).
`checking` checks a pull request: `comment` has the text, `findings` the remarks on lines, `rows`
differences from production, `seen` the plan for production that people saw. `deploying` publishes
what was merged, if `unseen` finds nothing in its plan that nobody saw.
"""
