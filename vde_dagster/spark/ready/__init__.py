"""The ready process: runs commands in copies of a process that has imported all modules.

Importing Spark's client, pandas, SQLAlchemy, SQLGlot and Dagster takes most of the time of a short
command or run. While a project's Spark keeps running between commands (the warm engine), `process`
keeps these modules in memory and only forks. `client` sends it a module's name, arguments, a
folder, an environment and open files. Each fork runs the module's `call` and ends when its
client ends. If the client and `process` differ (in Python, in variables that modules read at
import, or in a file of a module), the work runs without the ready process. Android's zygote and
Mercurial's chg use the same idea.
"""
