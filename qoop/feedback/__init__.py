"""Where the share comes from: the arbiter's stream, a recorded profile, or a fixed number."""
