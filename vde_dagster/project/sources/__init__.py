"""Sources of models; each reads the definitions in some files of the project."""
