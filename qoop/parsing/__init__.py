"""SQL text to query blocks and join graphs, and back to text. The only room that knows sqlglot."""
