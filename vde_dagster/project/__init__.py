"""Project on disk: settings, models, macros, audits, unit tests. Reads files, returns `Model`s."""
