"""A Data Vault: macros that write hashes and queries, and kinds for its tables.

Macros write plain Spark SQL, so versions and lineage are derived as usual. `hashing` has this
product's hashes, `compatible` the hashes of AutomateDV and datavault4dbt, `stage` and `generated`
write whole queries.
"""
