"""The description of the HTTP interface: one module for each noun, put together in ``document.py``.

Each operation is declared here once: ``http/api/route_table.py`` compiles what dispatches requests from it.
Numbers come from ``limits.py``, error codes and their statuses from ``http/error_codes.py``.
"""
