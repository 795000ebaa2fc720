"""Reading Spark SQL with SQLGlot as Spark reads it, and changing its text in places."""
