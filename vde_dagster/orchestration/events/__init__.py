"""Work and what is stored of it: applies as streams of events, the state's facts as Dagster's."""
