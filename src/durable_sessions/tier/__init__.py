"""The bucket tier: writes flushes, reads cold data, merges small objects and removes unused ones."""
