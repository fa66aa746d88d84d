"""A research agent and its evidence: three trials of a numeric experiment, and what the next run learns.

Start a server with ``ds serve`` and run this file. The agent looks for a step size with which gradient
descent fits a line. The first run needs three trials and remembers which step was best; the second run reads
that memory, and needs one. Every trial runs in a sandbox, and the judge measures each again in another. The
seven answers of both runs and a zip for each follow; ``ds dossier verify`` checks them.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from shared.story import SPEC, ScriptedModel, attach, connected, must_run, options, tell

from durable_sessions import Client
from durable_sessions.client import Validation
from durable_sessions.sandbox import Result, Sandbox

POINTS = [[1.0, 2.1], [2.0, 3.9], [3.0, 6.2], [4.0, 7.8]]
EXPERIMENT = """\
import json, sys

points, step, slope = json.load(open("points.json")), float(sys.argv[1]), 0.0
for _ in range(40):
    slope -= step * sum(2 * x * (slope * x - y) for x, y in points) / len(points)
loss = sum((slope * x - y) ** 2 for x, y in points) / len(points)
print(json.dumps({"loss": min(loss, 1e9), "slope": max(min(slope, 1e9), -1e9)}))
sys.exit(loss > 0.05)
"""
FIRST = [
    {"text": "A large step, to be fast.", "step": 0.2},
    {"text": "That diverges. A very small one.", "step": 0.001},
    {"text": "That is too slow. One in between.", "step": 0.05},
]
SECOND = [{"text": "The memory says which step was best.", "step": None}]
SCOPE = "project:line-fit"


def prepare(sandbox: Sandbox) -> None:
    """Put the experiment and its data into a sandbox."""
    sandbox.write("experiment.py", EXPERIMENT)
    sandbox.write("points.json", json.dumps(POINTS))


def figures(result: Result) -> Mapping[str, float]:
    """Return what the experiment has measured."""
    found: Mapping[str, float] = json.loads(result.stdout)
    return found


def command(step: float) -> str:
    """Return the command of a trial."""
    return f"{sys.executable} experiment.py {step}"


def run(agent: Client, judge: Client, session: str, answers: Sequence[Mapping[str, object]]) -> Validation:
    """Try step after step until the judge has measured a good fit; return its last verdict."""
    model = ScriptedModel(answers)
    known: list[dict[str, Any]] = []
    for number in range(1, len(answers) + 1):
        with agent.wake(session, worker=f"trial-{number}") as work:
            if number == 1:
                attach(agent, work, "input", "points.json", json.dumps(POINTS).encode())
                known = work.recall("best step", scope=SCOPE, influence="planning").entries
                print(f"{session}: {len(known)} memories read")
            work.to("local", SPEC, prepare=prepare)
            chosen = model.answer(work)["step"]
            step = float(known[0]["value"]["step"] if chosen is None else chosen)
            tried = work.run(command(step), effect="none")
            work.fact(f"trial-{number}", {"step": step, "exit_code": tried.exit_code}, kind="decision")
            work.checkpoint(units=1, next="Judge the trial.", instructions="Try another step if it fails.")
            work.route("judge", reason=f"Measure trial {number} again.")
        measured = judge.session(session).validate(
            "fit", command(step), spec=SPEC, prepare=prepare, evidence=[tried.result], metrics=figures
        )
        judge.session(session).append({"type": "ds.routed", "to": "*", "reason": "Go on."})
        loss = figures(measured.result)["loss"]
        print(f"{session}: trial {number}, step {step}: loss {loss:.4g}, {measured.verdict}")
        if number == len(answers):
            with agent.wake(session, worker="writer") as work:
                work.remember(
                    "best step",
                    {"step": step, "loss": loss},
                    scope=SCOPE,
                    why="validation",
                    because=[measured.evaluation],
                    kind="procedure",
                )
    return measured


def main() -> None:
    """Run both, or, if they were run before, tell them again."""
    given = options(str(__doc__).splitlines()[0], "research")
    second = f"{given.session}-second"
    with connected(given.url, "agent") as agent, connected(given.url, "judge") as judge:
        feature = {"id": "fit", "text": "The loss is below 0.05.", "check": command(0.05)}
        for session, answers in ((given.session, FIRST), (second, SECOND)):
            made = agent.sessions.create(session, goal="Find a step that fits the line.", outcome=[feature])
            state = made.state()
            if must_run(state, finished=state["done"]):
                run(agent, judge, session, answers)
        tell(agent, given.session, "research", given.out)
        tell(agent, second, "research", given.out.with_name(f"{second}.zip"))


if __name__ == "__main__":
    main()
