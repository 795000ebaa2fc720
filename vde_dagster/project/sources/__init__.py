"""Where models come from: a source takes files of the project and says what they define."""
