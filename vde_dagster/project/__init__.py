"""A project on disk: settings, model files, macros, audits and unit tests. Files in, `Model`s out."""
