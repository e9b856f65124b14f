"""Sources of the share: the arbiter's event stream, a profile in a file, or a fixed number."""
