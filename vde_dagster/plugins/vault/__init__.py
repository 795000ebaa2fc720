"""A Data Vault: macros that hash keys and attributes.

`hashing` has the keys and hashdiffs of this product, which no two different rows share, and
`compatible` those of AutomateDV and of datavault4dbt. Macros write Spark SQL that every room
understands, so versions and lineage come by themselves.
"""
