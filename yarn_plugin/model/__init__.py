"""The nouns everything else is said in: immutable, without input or output."""
