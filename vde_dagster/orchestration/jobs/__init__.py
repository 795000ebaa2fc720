"""Jobs, schedules and sensors, and notifications of their runs."""
