"""SQL that makes the state's database reject invalid writes, for every program.

`acts` are triggers that protect the log, `rights` are triggers that check a login's rights for each
row, and `write_views` are the views through which all logins except the owner write.
"""
