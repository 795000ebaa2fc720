"""Plans: the intervals to fill and the views to publish that bring an environment to a target."""
