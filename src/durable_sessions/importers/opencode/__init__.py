"""OpenCode: its database, or the trees of JSON files that came before."""
