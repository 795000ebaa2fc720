"""CI of pull requests: builds each in a separate environment, and publishes it once merged.

`settings` is the table `[tool.vde.ci]`, `forges` write comments and checks (GitHub, GitLab, Git).
`checking` checks a pull request: `comment` writes the text, `findings` collects remarks on lines,
`rows` compares rows with production, `seen` stores the plan that reviewers saw. `deploying`
publishes a merged commit; `unseen` lists effects of its plan that were not reviewed.
"""
