"""Black-box attacks on a running arbiter over HTTP, its command line, its files and its ResourceManager's answers.

`python -m tests.adversary` runs a check for each known attack, then random operations; see `__main__`.
"""
