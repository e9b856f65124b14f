"""One-shot mathematics, each in a file of its own."""
