"""Project files (settings, models, macros, audits, unit tests), read and returned as `Model`s."""
