"""A query in virtual time, for `yarn-plugin simulate`."""
