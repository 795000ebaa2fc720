"""Commands without a start of Python, in copies of a process that has imported everything.

Importing Spark's client, pandas, SQLAlchemy and SQLGlot takes most of a short command's time. Where
a project has a warm engine, `ready_process` is one that has them in memory and does nothing but
fork; `client` hands it the command's words, its folder, environment and open files, and waits. What
runs is the same code in a process of its own, which ends when the command's does. Where anything is
different (Python, variables that it reads at its start, a file of a module), the command runs as
ever. The idea is that of Android's zygote and Mercurial's chg.
"""
