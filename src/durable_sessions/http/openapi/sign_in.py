"""Signing in with a browser, and who a caller is: operations and schemas."""

from durable_sessions.http.bodies.sign_in import SignInBody, WhoAnswer
from durable_sessions.http.openapi.answer_headers import LOCATION, SET_COOKIE
from durable_sessions.http.openapi.error_groups import WRITING_UNMETERED
from durable_sessions.http.openapi.parts import JSON, Answer, Body, Noun, Operation, json_answer
from durable_sessions.http.openapi.schemas import ref, text
from durable_sessions.http.openapi.struct_schemas import schema_of

FORM = "application/x-www-form-urlencoded"

NOUN = Noun(
    "Sign-in",
    "How the web page gets in where keys are needed. The key is shown once and exchanged for a cookie, which "
    "no script can read. The sign-in is a key of its own: it is seen among the keys, can be revoked there, "
    "lasts twelve hours, and ends with the key that was shown. Programs send their key in a "
    "header instead.",
    (
        Operation(
            "signIn: POST /v1/login",
            "Sign a browser in. Over plain HTTP only on loopback.",
            {
                200: json_answer("Signed in: the cookie is set.", WhoAnswer, SET_COOKIE),
                303: Answer("The same, for a form: on to the page.", headers=(SET_COOKIE, LOCATION)),
            },
            body=Body(
                {JSON: ref("SignIn"), FORM: text("`key`, and `next`, a path of the page.")},
                "",
                True,
                ("invalid_json",),
            ),
            errors=("authentication_error", "invalid_request", "sign_in_refused", "sign_ins_too_fast"),
            role=None,
        ),
        Operation(
            "signOut: DELETE /v1/login",
            "Sign a browser out. The sign-in is revoked, and the streams that it has open end. A key that is "
            "sent in a header stays as it is.",
            {204: Answer("Signed out.", headers=(SET_COOKIE,))},
            role="reader",
        ),
        Operation(
            "whoami: GET /v1/whoami",
            "Who am I? The caller, and what its role allows.",
            {200: json_answer("The caller.", WhoAnswer)},
            role="reader",
            head=True,
        ),
    ),
    {"SignIn": schema_of(SignInBody)},
    preflight=False,
    writing=WRITING_UNMETERED,
)
