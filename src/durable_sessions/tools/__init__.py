"""Tools for data at rest: verify, dump, repair."""
