"""The server's refusals in the words of the command line: options instead of members and parameters."""

import re

import click

_API_NAMES = {"expires": "expires_at", "from_": "from", "query": "q", "start": "from"}
"""What the API calls an option or argument, where the command has another name for it."""
_HEADERS = {"Session-Epoch": "DURABLE_SESSIONS_EPOCH", "Session-Principal": "--principal"}
_BODY = re.compile(r"^The body is not usable: ")
_PARAMETER = re.compile(r"^The parameter ")
_SEND = re.compile(r"\b([Ss])end\b")
_EXAMPLE = re.compile(r"\bsuch as q=")
_EVENT_TYPE = re.compile(r"^ds\.[a-z_.]+: ")
"""The event that a command makes of its options: who typed them need not know of it."""
_ID_ADVICE = re.compile(r" To go on with it, append to .*$", re.DOTALL)


def in_options(message: str) -> str:
    """Return what the server said to a command, about its options and arguments."""
    context = click.get_current_context(silent=True)
    message = _ID_ADVICE.sub(" Choose another id.", message)
    message = _EXAMPLE.sub("such as ", message)
    message = _PARAMETER.sub("", _BODY.sub("", message))
    if context is not None and not any(one.name == "event" for one in context.command.params):
        message = _EVENT_TYPE.sub("", message)
    for header, name in _HEADERS.items():
        message = message.replace(header, name)
    for parameter in context.command.params if context is not None else ():
        message = _named(message, parameter)
    return _SEND.sub(lambda found: "Give" if found[1] == "S" else "give", message)


def _named(message: str, parameter: click.Parameter) -> str:
    """Return the message with the name of a parameter as it is typed."""
    shown = max(parameter.opts, key=len) if isinstance(parameter, click.Option) else parameter.name.upper()
    name = re.escape(_API_NAMES.get(parameter.name, parameter.name))
    # Only where the server's sentences name a member, so that the same word in a value is left alone.
    message = re.sub(rf"^{name}=(?=\S)", f"{shown} ", message)
    message = re.sub(rf"^{name}\[[0-9]+\](?= )", shown, message)
    return re.sub(
        rf"(^|\bgive |\bsend |\bwith ){name}(?= is | has | up to | goes | whose )", rf"\g<1>{shown}", message
    )
