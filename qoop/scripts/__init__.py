"""Scripts and the shell: statements of a file or of a terminal, run one after the other as by `spark-sql`."""
