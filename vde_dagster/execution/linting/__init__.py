"""Looking at a project's models by rules: which, what was remembered, and own rules."""
