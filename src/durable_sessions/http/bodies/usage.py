"""What a workspace used, in answers."""

from typing import Annotated

import msgspec

from durable_sessions.schema_notes import Whole, about


class UsageSum(msgspec.Struct):
    """What the sessions of one group used."""

    key: Annotated[
        str | None,
        about("The day, the agent's id, the model, or the value; null for what names none, and the rest."),
    ]
    sessions: Annotated[Whole, about("How many sessions have used something.")]
    requests: Annotated[Whole, about("Model requests.")]
    priced_requests: Annotated[Whole, about("Those of which the events say what they cost.")]
    input_tokens: Whole
    output_tokens: Whole
    cache_read_input_tokens: Whole
    cache_creation_input_tokens: Whole
    cost_usd: Annotated[float, about("The sum of what events say; nothing is computed from prices.")]


class UsageAnswer(msgspec.Struct):
    """What the sessions that were looked at used."""

    data: list[UsageSum]
    complete: Annotated[
        bool,
        about("Whether this is all: false on pages, and if `after` has left out usage without a day."),
    ]
    next_page: Annotated[str | None, about("What to send as `page` to go on; add the sums of all pages.")]
