"""SQL text to query blocks and join graphs, and back to text. The only package that imports sqlglot."""
