"""CI of pull requests: builds each in a separate environment, and publishes it once merged.

`settings` is the table `[tool.vde.ci]`, `forges` write comments and checks (GitHub, GitLab, Git).
`checking` checks a pull request: `comment` has the text, `findings` the remarks on lines, `rows`
the differences from production, `seen` the reviewed plan for production. `deploying` publishes
merged commits if `unseen` finds nothing in their plan that was not reviewed.
"""
