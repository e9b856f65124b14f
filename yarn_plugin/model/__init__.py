"""The nouns of the domain: immutable values, no I/O."""
