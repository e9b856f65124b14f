"""What decides: pure functions of what they are given; no input or output, no clock, no threads."""
