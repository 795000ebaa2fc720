"""Code that runs in dbt's own process, found there by its name: dbt imports modules `dbt_…`.

The folder is put on dbt's path while it compiles. Nothing here is imported by `vde`.
"""
