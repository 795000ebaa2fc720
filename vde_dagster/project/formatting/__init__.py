"""Files of SQL laid out anew: headers, statements, queries; templates stay as they are."""
