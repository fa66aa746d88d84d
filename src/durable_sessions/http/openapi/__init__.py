"""The description of the HTTP interface: one module for each noun, put together in ``document.py``.

Numbers come from ``limits.py``, error codes and their statuses from ``http/api/errors.py``.
"""
