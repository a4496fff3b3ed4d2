"""Personal data: what is removed before it is written, and what is written encrypted."""
