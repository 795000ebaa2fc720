"""A project on disk: settings, models, macros, audits, unit tests. Files in, `Model`s out."""
