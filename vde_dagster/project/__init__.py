"""Reading of project files: settings, models, macros, audits and unit tests."""
