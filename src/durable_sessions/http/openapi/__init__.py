"""The HTTP interface, declared: what is served, what it takes, what it answers, and how it is described.

Each noun has a module with its ``NOUN``: its operations and the schemas that they share. An operation states
its id, method and path, its prose, its answers, its body, its own parameters and its own errors, and nothing
that can be derived:

- parameters of the path, the role, and the errors that follow from parameters and method: ``completion.py``;
- schemas of bodies: from the structs in ``http/bodies`` (``struct_schemas.py``);
- headers: declared in ``request_headers.py``, ``answer_headers.py`` and ``error_headers.py``; handlers parse
  and send them by these declarations, too;
- statuses and meanings of error codes: from ``http/error_codes.py`` and ``errors.py``;
- numbers: from ``limits.py``, by name in braces (``limit_names.py``);
- example calls: from ``examples.http``; tests send each of them to a server.

``document.py`` makes the OpenAPI document of all that, and ``http/api/route_table.py`` what dispatches
requests. Every face names its handlers by the ids of operations, and cannot be imported with a handler too
many or too few.
"""
