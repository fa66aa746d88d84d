"""The bucket: immutable objects in a directory or an object store, and the formats kept in it."""
