"""Memory stores, their memories and versions: their operations and schemas."""

from durable_sessions.http.bodies.deletions import MemoryDeleted, MemoryStoreDeleted
from durable_sessions.http.bodies.memory_stores import (
    MemoryObject,
    MemoryPrefix,
    MemoryStoreObject,
    MemoryVersionObject,
    NativeMemoryUpdateBody,
    NativeNewMemoryBody,
)
from durable_sessions.http.openapi.common import CREATED_AT, PAGE, REGISTRY_LIMIT, REGISTRY_PAGE, UPDATE
from durable_sessions.http.openapi.error_groups import READING, STORING
from durable_sessions.http.openapi.parts import Noun, Operation, in_query, json_answer, json_body
from durable_sessions.http.openapi.schemas import choice, page, ref, text, whole
from durable_sessions.http.openapi.struct_schemas import schema_of
from durable_sessions.managed_agents.memory_stores import NativeMemoryStoreBody

VIEWS = ("basic", "full")
OPERATIONS = ("created", "modified", "deleted")
LIMIT = REGISTRY_LIMIT
DEPTH = in_query(
    "depth",
    whole(minimum=0, maximum=20),
    "How far below the prefix to list: what lies deeper is shown as folders. 0, which is everything, if "
    "absent.",
    1,
    default=0,
)
_VIEW = in_query(
    "view",
    choice(*VIEWS),
    "`full` is with the content, and at most 20 on a page. A single read is full if absent, all else basic.",
    "full",
)
_PREFIX = in_query("path_prefix", text(), "Only paths that begin so; it begins and ends with `/`.", "/notes/")
_EXPECTED = in_query(
    "expected_content_sha256",
    text(),
    "Only if the content has this SHA-256.",
    None,
    "memory_precondition_failed",
)
_OF_VERSIONS = (
    in_query("memory_id", text(), "Only changes of this memory, also after it was deleted."),
    in_query("operation", choice(*OPERATIONS), "Only changes of this kind.", "created"),
    in_query("session_id", text(), "Only what this session wrote.", "build-42"),
    in_query("api_key_id", text(), "Only what was sent with a key of this principal.", "local"),
    in_query("service_account_id", text(), "There are none here: finds nothing.", "svac_01"),
    CREATED_AT["gte"],
    CREATED_AT["lte"],
)
_STORE = {200: json_answer("The memory store.", ref("MemoryStore"))}
_MEMORY = {200: json_answer("The memory.", ref("Memory"))}
_VERSION = {200: json_answer("The version.", ref("MemoryVersion"))}
_SAVED = ("invalid_memory_store", "document_too_large")
_CHANGED = ("invalid_memory", "memory_scope_full", *STORING, *READING)

NOUN = Noun(
    "Memory stores",
    "Named stores of texts that agents share, so that code written for Managed Agents runs unchanged. A "
    "store is the memory scope `store:<id>`, a memory an entry whose key is its path: sessions read and "
    "write the same with `ds.memory.*`, with evidence. What is written here has no session and no evidence; "
    "the scope's log says so.",
    (
        Operation(
            "createMemoryStore: POST /v1/memory_stores",
            "Create a memory store.",
            _STORE,
            body=json_body(ref("NewMemoryStore")),
            errors=_SAVED,
            gives={"memory_store_id": "$response.body#/id"},
        ),
        Operation(
            "listMemoryStores: GET /v1/memory_stores",
            "List memory stores.",
            {200: json_answer("A page of memory stores, newest first.", page(ref("MemoryStore")))},
            parameters=REGISTRY_PAGE,
            errors=("too_many_scans",),
        ),
        Operation("getMemoryStore: GET /v1/memory_stores/{memory_store_id}", "Read a memory store.", _STORE),
        Operation(
            "updateMemoryStore: POST /v1/memory_stores/{memory_store_id}",
            "Change a memory store.",
            _STORE,
            body=json_body(ref("MemoryStoreUpdate"), required=False),
            errors=(*_SAVED, "object_archived"),
        ),
        Operation(
            "archiveMemoryStore: POST /v1/memory_stores/{memory_store_id}/archive",
            "Archive a memory store. Its memories stay readable, and can be deleted but not changed.",
            _STORE,
        ),
        Operation(
            "deleteMemoryStore: DELETE /v1/memory_stores/{memory_store_id}",
            "Delete a memory store, with all memories and versions.",
            {200: json_answer("Gone.", MemoryStoreDeleted)},
            errors=("legal_hold",),
        ),
        Operation(
            "createMemory: POST /v1/memory_stores/{memory_store_id}/memories",
            "Write a memory at a path that is free.",
            _MEMORY,
            (_VIEW,),
            json_body(ref("NewMemory")),
            errors=("object_archived", "memory_path_conflict", *_CHANGED),
            gives={"memory_id": "$response.body#/id"},
        ),
        Operation(
            "listMemories: GET /v1/memory_stores/{memory_store_id}/memories",
            "List memories by their paths.",
            {
                200: json_answer(
                    "A page of memories and folders.", page({"anyOf": [ref("Memory"), ref("MemoryPrefix")]})
                )
            },
            (LIMIT, PAGE, DEPTH, _PREFIX, _VIEW),
            errors=("too_many_scans", *READING),
        ),
        Operation(
            "getMemory: GET /v1/memory_stores/{memory_store_id}/memories/{memory_id}",
            "Read a memory.",
            _MEMORY,
            (_VIEW,),
            errors=READING,
        ),
        Operation(
            "updateMemory: POST /v1/memory_stores/{memory_store_id}/memories/{memory_id}",
            "Change the content of a memory, its path, or both.",
            _MEMORY,
            (_VIEW,),
            json_body(ref("MemoryUpdate")),
            errors=("object_archived", "memory_path_conflict", "memory_precondition_failed", *_CHANGED),
        ),
        Operation(
            "deleteMemory: DELETE /v1/memory_stores/{memory_store_id}/memories/{memory_id}",
            "Delete a memory. Its versions stay.",
            {200: json_answer("Deleted.", MemoryDeleted)},
            (_EXPECTED,),
            errors=("memory_scope_full", *STORING, *READING),
        ),
        Operation(
            "listMemoryVersions: GET /v1/memory_stores/{memory_store_id}/memory_versions",
            "List the changes of a store, newest first.",
            {200: json_answer("A page of versions.", page(ref("MemoryVersion")))},
            (LIMIT, PAGE, _VIEW, *_OF_VERSIONS),
            errors=("too_many_scans", "registered_object_not_found", *READING),
        ),
        Operation(
            "getMemoryVersion: GET /v1/memory_stores/{memory_store_id}/memory_versions/{memory_version_id}",
            "Read a version.",
            _VERSION,
            (_VIEW,),
            errors=READING,
        ),
        Operation(
            "redactMemoryVersion: "
            "POST /v1/memory_stores/{memory_store_id}/memory_versions/{memory_version_id}/redact",
            "Redact a version. Its content is gone from every answer at once, and from every file within a "
            "day. What a session wrote is redacted in that session, too, as long as that exists.",
            _VERSION,
            errors=("legal_hold", *STORING, *READING),
            role="admin",
        ),
    ),
    {
        "MemoryStore": schema_of(MemoryStoreObject),
        "NewMemoryStore": schema_of(NativeMemoryStoreBody, required={"name": {"minLength": 1}}),
        "MemoryStoreUpdate": {**schema_of(NativeMemoryStoreBody), "description": UPDATE},
        "Memory": schema_of(MemoryObject),
        "MemoryPrefix": schema_of(MemoryPrefix),
        "NewMemory": schema_of(NativeNewMemoryBody),
        "MemoryUpdate": schema_of(NativeMemoryUpdateBody),
        "MemoryVersion": schema_of(MemoryVersionObject),
    },
)
