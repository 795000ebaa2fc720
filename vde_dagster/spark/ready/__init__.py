"""Work without a start of Python, in copies of a process that has imported everything.

Importing Spark's client, pandas, SQLAlchemy, SQLGlot and Dagster takes most of a short command's or
run's time. Where a project has a warm engine, `process` is one that has them in memory and does
nothing but fork; `client` hands it a function's name, words, a folder, an environment and open
files, and waits. What runs is the same code in a process of its own, which ends when whoever asked
does. Where anything is different (Python, variables that it reads at its start, a file of a
module), the work is done as ever. The idea is that of Android's zygote and Mercurial's chg.
"""
