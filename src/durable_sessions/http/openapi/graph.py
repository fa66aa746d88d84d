"""The graph of a session: what led to what."""

from durable_sessions.http.openapi.error_groups import READING
from durable_sessions.http.openapi.parts import JSON, TEXT, Answer, Noun, Operation, in_query, json_answer
from durable_sessions.http.openapi.schemas import choice, ref, text, whole
from durable_sessions.http.openapi.struct_schemas import schema_of
from durable_sessions.http.openapi.work import AT
from durable_sessions.sessions.graph.graph_nodes import ImpactGraph, SessionGraph, WhyGraph

FORMAT = in_query(
    "format",
    choice("json", "mermaid", "dot"),
    "As JSON, or as a text that Mermaid or Graphviz draws.",
    "mermaid",
    default="json",
)
FAMILY = in_query(
    "family",
    choice("true", "false"),
    "Also the sessions that it was forked from, and all forks of these.",
    "false",
    default="true",
)
DEPTH = in_query(
    "depth",
    whole(minimum=1, maximum="{graph_depth_max}"),
    "How many edges to go from the event at most.",
    3,
    default=10,
)
_BUSY = ("view_unavailable", "too_many_scans", *READING)

NOUN = Noun(
    "Graph",
    "What led to what. Events refer to others with `refs`, and their members imply more: a result belongs to "
    "its call, a decision answers its request. From any event a graph tells what it rests on, and what could "
    "have flowed from it, through all sessions of the workspace. Evidence that is gone is named.",
    (
        Operation(
            "getGraph: GET /v1/sessions/{session_id}/graph",
            "The graph of a session and its family. Nodes are events that have refs or are their targets, "
            "tool calls and results, and all `ds.` events, with their sessions, artifacts, principals and "
            "sandboxes; at most {graph_nodes_max:,} of them.",
            {200: Answer("The graph.", {JSON: ref("SessionGraph"), TEXT: text()})},
            (FORMAT, FAMILY, AT),
            errors=_BUSY,
        ),
        Operation(
            "getWhy: GET /v1/sessions/{session_id}/events/{event_id}/why",
            "What an event rests on: all that refs lead back to. What is gone is in `missing`.",
            {200: json_answer("The graph behind the event.", ref("WhyGraph"))},
            (DEPTH,),
            errors=_BUSY,
        ),
        Operation(
            "getImpact: GET /v1/sessions/{session_id}/events/{event_id}/impact",
            "What could have flowed from an event: all that leads to it by refs. `readers` are the reads "
            "that returned a memory, with the influence that they declared. Unless `up_to_date`, the search "
            "index is still being made, and there may be more.",
            {200: json_answer("The graph before the event.", ref("ImpactGraph"))},
            (DEPTH,),
            errors=("share_exceeded", *_BUSY),
        ),
    ),
    {
        "SessionGraph": schema_of(SessionGraph),
        "WhyGraph": schema_of(WhyGraph),
        "ImpactGraph": schema_of(ImpactGraph),
    },
)
