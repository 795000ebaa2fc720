"""Work without a start of Python, in copies of a process that has imported everything.

Importing Spark's client, pandas, SQLAlchemy, SQLGlot and Dagster takes most of the time of a short
command or run. If a project has a warm engine, `process` keeps them in memory and only forks;
`client` sends it a function's name, arguments, a folder, an environment and open files, and waits.
The same code runs in a separate process, which ends when its client does. If anything differs
(Python, variables that it reads at its start, a file of a module), the work runs without the ready
process. Android's zygote and Mercurial's chg use the same idea.
"""
