"""Dumps: what files and objects hold, as plain values for people and programs to look at."""
