"""Pull requests: `vde ci check` builds one in an environment of its own, and tells it.

`settings` is the table `[tool.vde.ci]`, `forges` write comments and checks (GitHub, plain Git),
`checking` is the work, `comment` has its text, `findings` the remarks on lines, `rows` differences
from production, `seen` the plan for production that people saw.
"""
