"""Jobs, schedules and the sensor, and notifications of their runs."""
