"""What starts work: jobs, schedules and the sensor, and who is told of it."""
