"""Whether a query is planned or runs as written, and why: the causes as values, the decision, and their words."""
