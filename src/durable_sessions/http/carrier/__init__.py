"""The server on httptools: bytes in, requests out, answers back."""
