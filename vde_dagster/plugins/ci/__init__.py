"""Pull requests: `vde ci` checks one in an environment of its own, deploys and closes it.

`settings` is the table `[tool.vde.ci]`, `event` what a job was started for, `forges` write comments
and checks (GitHub, GitLab, plain Git), `checking` and `deploying` are the work, `comment` has its
text, `findings` the remarks on lines, `rows` differences from production, `seen` what people saw.
"""
