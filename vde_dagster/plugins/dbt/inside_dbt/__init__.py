"""Code that runs in dbt's own process, which imports modules named `dbt_…`.

The folder is put on dbt's path while it compiles. Nothing here is imported by `vde`.
"""
