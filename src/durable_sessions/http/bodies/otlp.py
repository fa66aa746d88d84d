"""What exporters of OpenTelemetry are told."""

from typing import Annotated

import msgspec

from durable_sessions.schema_notes import about


class PartialSuccess(msgspec.Struct, omit_defaults=True, rename="camel"):
    """What was not stored, and why; sending it again would change nothing."""

    rejected_spans: Annotated[str, about("How many spans, as a text.")] = "0"
    rejected_log_records: Annotated[str, about("How many log records, as a text.")] = "0"
    error_message: Annotated[str, about("The first reason.")] = ""


class ExportAnswer(msgspec.Struct, omit_defaults=True, rename="camel"):
    """Everything else of the export is durable."""

    partial_success: PartialSuccess | None = None
