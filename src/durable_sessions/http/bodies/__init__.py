"""Bodies of requests and answers, one module for each noun, as structs.

A body is stated once, here: ``http/api`` decodes into these structs and answers with them, and the schemas
of the OpenAPI document are derived from them (``http/openapi/struct_schemas.py``).
"""
