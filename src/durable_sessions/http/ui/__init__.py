"""The web page: its addresses, its shell, its files, and the same pages without script."""
