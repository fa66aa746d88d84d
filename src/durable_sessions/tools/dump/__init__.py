"""Dumps: the contents of files and objects as plain values, for people and programs."""
