"""A trading agent and its evidence: a policy, approvals, what each order changed, and four trials.

No market is touched: orders change a portfolio in a file. The agent is to bring it to 60 % stocks. The policy
is an artifact; orders above its limit need the approval of the risk officer, who is somebody else. Four
trials are forks of one session; after each, the risk officer checks the portfolio in a clean sandbox. One
ends outside of the policy. The seven answers and a zip follow, with pass^k of the trials.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shared.story import SPEC, ScriptedModel, attach, connected, must_run, options, tell

from durable_sessions import Client
from durable_sessions.client import Work
from durable_sessions.sandbox import Sandbox

POLICY = {"stocks": 0.6, "tolerance": 0.05, "approval_above": 100}
PORTFOLIO = {"stocks": 300, "cash": 700}
SCHEMA = {"name": "order", "input": {"side": "buy or sell", "amount": "a whole number"}}
RISK = """\
import json, sys

policy, held = json.load(open("policy.json")), json.load(open("portfolio.json"))
share = held["stocks"] / (held["stocks"] + held["cash"])
print(json.dumps({"share": share}))
sys.exit(abs(share - policy["stocks"]) > policy["tolerance"])
"""
TRIALS: list[list[dict[str, Any]]] = [
    [{"text": "One large order.", "side": "buy", "amount": 300}],
    [
        {"text": "A small order.", "side": "buy", "amount": 100},
        {"text": "The rest.", "side": "buy", "amount": 200},
    ],
    [{"text": "A small order will do.", "side": "buy", "amount": 100}],
    [{"text": "Too much.", "side": "buy", "amount": 400}, {"text": "Back.", "side": "sell", "amount": 90}],
]
"""What the model orders in each trial; the third stops too early."""
CHECK = f"{sys.executable} risk.py"


def placed(portfolio: Mapping[str, int]) -> Callable[[Sandbox], None]:
    """Return what puts the risk check, the policy and a portfolio into a sandbox."""

    def prepare(sandbox: Sandbox) -> None:
        sandbox.write("risk.py", RISK)
        sandbox.write("policy.json", json.dumps(POLICY))
        sandbox.write("portfolio.json", json.dumps(portfolio))

    return prepare


def order(work: Work, officer: Client, number: int, said: Mapping[str, Any], held: dict[str, int]) -> None:
    """Place an order: large ones wait for the risk officer; the result tells what has changed."""
    call = f"{work.id}-order-{number}"
    asked = {"side": said["side"], "amount": said["amount"]}
    schema = hashlib.sha256(json.dumps(SCHEMA, sort_keys=True).encode()).hexdigest()
    work.append(
        {
            "type": "agent.tool_use",
            "id": call,
            "name": "order",
            "input": asked,
            "effect": "non_idempotent",
            "idempotency_key": call,
            "schema_sha256": schema,
        }
    )
    if said["amount"] > POLICY["approval_above"]:
        question = work.ask(f"{said['side']} {said['amount']}?", about=call)
        officer.session(work.id).decide(question, "approve", "Within what the policy allows to be asked for.")
    before = dict(held)
    sign = 1 if said["side"] == "buy" else -1
    held["stocks"] += sign * said["amount"]
    held["cash"] -= sign * said["amount"]
    effects = [
        {"kind": "balance", "target": name, "before": before[name], "after": held[name]} for name in held
    ]
    result = {"type": "agent.tool_result", "id": f"{call}-result", "tool_use_id": call, "effects": effects}
    work.append({**result, "content": [{"type": "text", "text": json.dumps(held)}]})
    work.sandbox.write("portfolio.json", json.dumps(held))


def trial(agent: Client, officer: Client, session: str, answers: Sequence[dict[str, Any]]) -> str:
    """Trade in one trial, and return the verdict of the risk officer."""
    held = dict(PORTFOLIO)
    model = ScriptedModel(answers)
    with agent.wake(session) as work:
        work.to("local", SPEC, prepare=placed(held))
        for number in range(1, len(answers) + 1):
            order(work, officer, number, model.answer(work), held)
        checked = work.run(CHECK, effect="read_only")
        work.route("risk", reason="Check the portfolio.")
    judged = officer.session(session).validate(
        "within-policy",
        spec=SPEC,
        prepare=placed(held),
        evidence=[checked.result],
        metrics=lambda result: json.loads(result.stdout),
    )
    return judged.verdict


def run(agent: Client, officer: Client, session: str) -> None:
    """Run the trials, each in a fork of its own."""
    with agent.wake(session) as work:
        attach(agent, work, "policy", "policy.json", json.dumps(POLICY).encode())
        work.fact("plan", "Four trials from the same portfolio.", kind="decision")
    for number, answers in enumerate(TRIALS, 1):
        fork = agent.session(session).fork(f"{session}-trial-{number}", metadata={"trial_of": session})
        print(f"Trial {number}: {trial(agent, officer, fork.id, answers)}")
    with agent.wake(session) as work:
        work.fact("trials", len(TRIALS))


def main() -> None:
    """Run the trials, or, if they were run before, tell them again."""
    given = options(str(__doc__).splitlines()[0], "trading")
    with connected(given.url, "agent") as agent, connected(given.url, "risk") as officer:
        feature = {"id": "within-policy", "text": "The portfolio is within the policy.", "check": CHECK}
        made = agent.sessions.create(
            given.session, goal="Bring the portfolio to 60 % stocks.", outcome=[feature]
        )
        state = made.state()
        if must_run(state, finished="trials" in state["facts"]):
            run(agent, officer, given.session)
        (reliability,) = made.dossier("trading").read()["sections"]["reliability"]["items"]
        print(f"{reliability['passed']} of {reliability['trials']} passed; pass^k: {reliability['pass_k']}")
        tell(agent, given.session, "trading", given.out)


if __name__ == "__main__":
    main()
